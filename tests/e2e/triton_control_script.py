"""Runs in an environment of its own, with an unmodified tritonclient: loads a model, uses it, unloads it.

Usage: triton_control_script.py http|grpc HOST:PORT MODEL INPUT_FILE.npy
"""

import json
import sys
import time

import numpy as np

LIMIT_S = 60


def main() -> None:
    kind, address, model, input_file = sys.argv[1:]
    if kind == "http":
        import tritonclient.http as triton
    else:
        import tritonclient.grpc as triton
    client = triton.InferenceServerClient(address)
    options = {} if kind == "http" else {"as_json": True}

    def entry():
        index = client.get_model_repository_index(**options)
        return next(each for each in (index if kind == "http" else index["models"]) if each["name"] == model)

    def refusal(action, *arguments, **more):
        try:
            action(*arguments, **more)
        except triton.InferenceServerException as error:
            return {"status": error.status(), "message": error.message()}

    told = {"before": entry(), "ready_before": client.is_model_ready(model)}
    client.load_model(model)
    told["loaded"], told["ready"] = entry(), client.is_model_ready(model, "1")
    told["metadata"] = client.get_model_metadata(model, **options)
    array = np.load(input_file)
    value = triton.InferInput(told["metadata"]["inputs"][0]["name"], list(array.shape), "FP32")
    value.set_data_from_numpy(array)
    output = told["metadata"]["outputs"][0]["name"]
    told["sums"] = [float(client.infer(model, [value]).as_numpy(output).sum()) for _ in range(3)]
    client.load_model(model)
    client.unload_model(model)
    end_s = time.monotonic() + LIMIT_S
    while (entry()["state"] != "UNAVAILABLE" or client.is_model_ready(model)) and time.monotonic() < end_s:
        time.sleep(0.05)  # a proxy may know the model for some seconds longer
    told["after"], told["ready_after"] = entry(), client.is_model_ready(model)
    told["infer_after"] = refusal(client.infer, model, [value])
    told["unknown"] = refusal(client.load_model, "nope")
    told["files"] = refusal(client.load_model, model, config="{}", files={"file:1/model.onnx": b"x"})
    print(json.dumps(told))


if __name__ == "__main__":
    main()
