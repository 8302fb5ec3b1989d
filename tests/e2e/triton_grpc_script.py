"""Runs in an environment of its own, with an unmodified tritonclient: one model over gRPC, answers to files.

Usage: triton_grpc_script.py HOST:PORT MODEL INPUT_FILE.npy OUTPUT_FOLDER
       triton_grpc_script.py HOST:PORT MODEL INPUT_FILE.npy --client-timeout SECONDS
       triton_grpc_script.py --fields
"""

import json
import sys
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import model_config_pb2, service_pb2


def main() -> None:
    if sys.argv[1] == "--fields":
        print(json.dumps(fields(service_pb2) | fields(model_config_pb2)))
        return
    address, model, input_file, *rest = sys.argv[1:]
    client = triton.InferenceServerClient(address)
    metadata = client.get_model_metadata(model, as_json=True)
    (name,) = [tensor["name"] for tensor in metadata["inputs"]]
    array = np.load(input_file)
    if rest[0] == "--client-timeout":
        print(json.dumps(refusal(client, model, name, array, client_timeout=float(rest[1]))))
        return
    value = triton.InferInput(name, list(array.shape), "FP32")
    value.set_data_from_numpy(array)
    wanted = [triton.InferRequestedOutput(output["name"]) for output in metadata["outputs"]]
    result = client.infer(model, [value], outputs=wanted, request_id="mine", priority=1, timeout=60_000_000)
    for output in metadata["outputs"]:
        np.save(Path(rest[0]) / "grpc.npy", result.as_numpy(output["name"]))
    print(
        json.dumps(
            {
                "id": result.get_response().id,
                "live": client.is_server_live(),
                "ready": client.is_server_ready(),
                "model_ready": client.is_model_ready(model),
                "unknown_model_ready": client.is_model_ready("nope"),
                "server": client.get_server_metadata(as_json=True),
                "model": metadata,
                "config": client.get_model_config(model, as_json=True)["config"],
                "statistics": client.get_inference_statistics(model, as_json=True)["model_stats"],
                "all_statistics": client.get_inference_statistics(as_json=True)["model_stats"],
                "index": client.get_model_repository_index(as_json=True)["models"],
                "wrong_tensor": refusal(client, model, name, np.zeros(1, np.float32)),
                "unknown_model": refusal(client, "nope", name, array),
            }
        )
    )


def refusal(client, model, name, array, **options):
    value = triton.InferInput(name, list(array.shape), "FP32")
    value.set_data_from_numpy(array)
    try:
        client.infer(model, [value], **options)
    except triton.InferenceServerException as error:
        return {"status": error.status(), "message": error.message()}


def fields(module):
    """Number and type of every field, by message and name."""
    found = {}
    messages = list(module.DESCRIPTOR.message_types_by_name.values())
    while messages:
        message = messages.pop()
        messages += message.nested_types
        found[message.full_name] = {field.name: [field.number, field.type] for field in message.fields}
    return found


if __name__ == "__main__":
    main()
