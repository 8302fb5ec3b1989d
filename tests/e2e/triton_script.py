"""Runs in an environment of its own, with an unmodified tritonclient: one model, binary and JSON, answers to files.

Usage: triton_script.py HOST:PORT MODEL INPUT_FILE.npy OUTPUT_FOLDER
"""

import json
import sys
from pathlib import Path

import numpy as np
import tritonclient.http as triton


def main() -> None:
    address, model, input_file, folder = sys.argv[1:]
    client = triton.InferenceServerClient(address)
    metadata = client.get_model_metadata(model)
    (input_metadata,) = metadata["inputs"]
    array = np.load(input_file)
    for form in ("binary", "json"):
        value = triton.InferInput(input_metadata["name"], list(array.shape), input_metadata["datatype"])
        value.set_data_from_numpy(array, binary_data=form == "binary")
        wanted = [triton.InferRequestedOutput(o["name"], binary_data=form == "binary") for o in metadata["outputs"]]
        result = client.infer(model, [value], outputs=wanted, request_id=f"my-{form}", priority=1, timeout=60_000_000)
        assert result.get_response()["id"] == f"my-{form}"
        for output in metadata["outputs"]:
            np.save(Path(folder) / f"{form}.npy", result.as_numpy(output["name"]))
    wrong = triton.InferInput(input_metadata["name"], [1], input_metadata["datatype"])
    wrong.set_data_from_numpy(np.zeros(1, np.float32))
    try:
        client.infer(model, [wrong])
        refusal = None
    except triton.InferenceServerException as error:
        refusal = {"status": error.status(), "message": error.message()}
    print(
        json.dumps(
            {
                "live": client.is_server_live(),
                "ready": client.is_server_ready(),
                "model_ready": client.is_model_ready(model),
                "unknown_model_ready": client.is_model_ready("nope"),
                "server": client.get_server_metadata(),
                "model": metadata,
                "index": client.get_model_repository_index(),
                "config": client.get_model_config(model),
                "statistics": client.get_inference_statistics(model)["model_stats"],
                "all_statistics": client.get_inference_statistics()["model_stats"],
                "refusal": refusal,
            }
        )
    )


if __name__ == "__main__":
    main()
