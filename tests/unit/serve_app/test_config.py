"""What is wrong in a configuration is told by key, value and what is allowed, all at once, before anything starts."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from serve_app.config import live_config, load_config, stored_config
from serve_app.errors import ConfigError, ModelMissingError, RepositoryMissingError
from serve_app.placement import actor_options
from serve_app.repository import find_model
from serve_app.sections import DeviceConfig, ModelConfig, QosConfig, StoredModelConfig

ROOT = Path(__file__).parent.parent.parent.parent
GOOD: dict[str, Any] = {
    "applications": [
        {"name": "gateway", "route_prefix": "/", "import_path": "serve_app.app:gateway"},
        {
            "name": "small",
            "route_prefix": "/v2/models/small",
            "import_path": "serve_app.app:model",
            "args": {"model": "small", "repository": "REPOSITORY", "device": {"kind": "cpu", "mode": "slo"}},
        },
        {
            "name": "large",
            "route_prefix": "/v2/models/large",
            "import_path": "serve_app.app:model",
            "args": {"model": "large", "repository": "REPOSITORY", "device": {"kind": "cpu", "mode": "slo"}},
        },
    ]
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("small", "large"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "plan.json").write_text("{}")
    return tmp_path / "models"


def write(repository: Path, config: dict[str, Any]) -> Path:
    path = repository.parent / "config.yaml"
    path.write_text(yaml.safe_dump(config).replace("REPOSITORY", str(repository)))
    return path


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """GOOD with values set at paths such as ``1.args.device.mode`` below ``applications``."""
    config = copy.deepcopy(GOOD)
    for path, value in changes:
        *parents, last = path.split(".")
        place: Any = config["applications"]
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        place[last] = value
    return config


def test_a_good_file_loads_with_safe_defaults(repository: Path) -> None:
    config = load_config(write(repository, GOOD))
    assert [model.model for model in config.models] == ["small", "large"]
    assert (config.host, config.port) == ("127.0.0.1", 8000)
    assert config.models[0].to_settings().device.mode == "slo"
    assert config.models[0].qos.alpha == 4


def test_mode_and_port_can_be_replaced_for_all_devices(repository: Path) -> None:
    config = load_config(write(repository, GOOD), mode="fifo", port=8100)
    assert {model.device.mode for model in config.models} == {"fifo"}
    assert config.raw["http_options"] == {"host": "127.0.0.1", "port": 8100}
    assert config.raw["applications"][1]["args"]["device"]["mode"] == "fifo"


def test_grpc_listens_on_the_loopback_interface_unless_it_is_switched_off(repository: Path) -> None:
    gateway = load_config(write(repository, GOOD)).gateway
    assert (gateway.grpc_host, gateway.grpc_port) == ("127.0.0.1", 8001)
    without = load_config(write(repository, changed(("0.args", {"grpc_port": None})))).gateway
    assert without.grpc_port is None
    replaced = load_config(write(repository, changed(("0.args", {"grpc_port": 9000}))), grpc_port=9001)
    assert replaced.gateway.grpc_port == 9001
    assert replaced.raw["applications"][0]["args"] == {"grpc_port": 9001}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("0.args", {"grpc_prot": 1}, r"\[0\]\.args\.grpc_prot: unknown key .* allowed here are grpc_host, grpc_max"),
        ("0.args", {"grpc_port": 70000}, r"\[0\]\.args\.grpc_port: .*65535 \(found 70000\)"),
        (
            "1.args.qos",
            {"alhpa": 4},
            r"\[1\]\.args\.qos\.alhpa: unknown key \(value 4\); allowed here are alpha, deadline_ms, margin, margin_ms",
        ),
        ("1.args.qos", {"alpha": 0.5}, r"qos\.alpha: .*greater than or equal to 1 \(found 0\.5\)"),
        ("1.args.device.kind", "tpu", r"device\.kind: .*'cpu', .* or 'webgpu' \(found 'tpu'\)"),
        ("1.args.device.mode", "fast", r"unknown mode 'fast': allowed are slo, dlir, oyst, bnst, fifo, parallel"),
        ("1.args.device.policy", "best", r"unknown policy 'best': allowed are fifo, sjf, srpt, edf"),
        ("1.args.device.policy_options", {"speed": 9}, r"option 'speed' = 9: allowed are the options"),
        ("1.args.device.threads", 0, r"device\.threads: .*\(found 0\)"),
        ("1.args.device.cores", [0, 1], r"cores \[0, 1\] must be as many different ones as threads \(1\)"),
        ("1.args.model", "a/b", r"args\.model: .*pattern.*\(found 'a/b'\)"),
        ("1.name", "other", r"applications\[1\]\.name: must be the model's name 'small' \(found 'other'\)"),
        ("1.route_prefix", "/small", r"must be '/v2/models/small' \(found '/small'\)"),
        (
            "1.args.modle",
            "x",
            r"applications\[1\]\.args\.modle: unknown key \(value 'x'\); allowed here are chained, device",
        ),
        ("0.args", {"port": 1}, r"applications\[0\]\.args\.port: unknown key"),
        ("1.num_replicsa", 2, r"applications\[1\]\.num_replicsa: unknown key \(value 2\); allowed here are args"),
        ("1.deployments", [{"name": "SplitModel", "replicas": 2}], r"\[1\]\.deployments\[0\]\.replicas: unknown key"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_what_is_allowed(
    repository: Path, path: str, value: object, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(write(repository, changed((path, value))))


def test_all_faults_are_told_at_once(repository: Path) -> None:
    config = changed(("1.args.device.mode", "fast"), ("2.args.device.threads", 0))
    with pytest.raises(ConfigError, match=r"(?s)unknown mode 'fast'.*device\.threads"):
        load_config(write(repository, config))


def test_models_that_disagree_on_their_device_are_both_named(repository: Path) -> None:
    config = changed(("2.args.device.mode", "fifo"))
    with pytest.raises(ConfigError, match=r"model 'small' and model 'large' disagree.*mode: 'slo' here, 'fifo' there"):
        load_config(write(repository, config))


def test_a_missing_repository_names_the_command_that_makes_it(repository: Path) -> None:
    config = changed(("1.args.repository", "nowhere"))
    with pytest.raises(RepositoryMissingError, match=r"no model repository at .*nowhere: 'make models'.*zoo"):
        load_config(write(repository, config))


def test_a_missing_model_names_the_command_that_makes_it(repository: Path) -> None:
    (repository / "large" / "plan.json").unlink()
    with pytest.raises(ModelMissingError, match=r"no model 'large' in .*python -m split_tool split"):
        load_config(write(repository, GOOD))


def user_config(value: object) -> tuple[str, Any]:
    return ("1.deployments", [{"name": "SplitModel", "user_config": value}])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"qos": {"alhpa": 4}}, r"\[1\]\.deployments\[0\]\.user_config\.qos\.alhpa: unknown key"),
        (
            {"device": {"threads": 2}},
            r"user_config\.device\.threads: unknown key .* here are lease_limit_s, max_",
        ),
        ({"device": {"mode": "fast"}}, r"user_config\.device: unknown mode 'fast'"),
        ({"device": {"policy_options": {"speed": 9}}}, r"user_config\.device: .*option 'speed' = 9"),
        ({"device": {"mode": None}}, r"user_config\.device\.mode: .*valid string \(found None\)"),
        ({"device": {"max_waiting": None}}, r"user_config\.device\.max_waiting: .*\(found None\)"),
    ],
)
def test_what_is_wrong_in_user_config_is_told_too(repository: Path, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(write(repository, changed(user_config(value))))


def test_models_whose_user_config_disagree_on_their_device_are_both_named(repository: Path) -> None:
    second = ("2.deployments", [{"name": "SplitModel", "user_config": {"device": {"mode": "bnst"}}}])
    config = changed(user_config({"device": {"mode": "fifo"}}), second)
    with pytest.raises(ConfigError, match=r"user_config of 'small' and user_config of 'large' disagree.*'fifo' here"):
        load_config(write(repository, config))


def test_user_config_replaces_what_it_states_and_nothing_else(repository: Path) -> None:
    qos = {"priority": 2, "deadline_ms": 90, "margin": 0.2, "margin_ms": 3}
    model = load_config(write(repository, changed(("1.args.timeout_ms", 300), ("1.args.qos", qos)))).models[0]
    stated = model.to_settings()
    assert (stated.priority, stated.deadline_s, stated.alpha) == (2, 0.09, 4.0)
    assert (stated.margin, stated.margin_s) == (0.2, 0.003)
    live = live_config({"qos": {"alpha": 2}, "device": {"max_waiting": 7}}, stated.device)
    assert live.device_over(stated.device) == msgspec.structs.replace(stated.device, max_waiting=7)
    assert live.over(stated) == msgspec.structs.replace(stated, alpha=2.0)
    assert live.over(stated).timeout_s == 0.3
    assert live_config({"qos": {"deadline_ms": None}}, stated.device).over(stated).deadline_s is None


def test_null_in_user_config_takes_back_the_policy_and_the_bound_per_model(repository: Path) -> None:
    config = changed(("1.args.device", {"policy": "edf", "max_waiting_per_model": 3}))
    del config["applications"][2]
    stated = load_config(write(repository, config)).models[0].to_settings()
    live = live_config({"device": {"policy": None, "max_waiting_per_model": None}}, stated.device)
    assert live.device_over(stated.device) == msgspec.structs.replace(
        stated.device, policy=None, max_waiting_per_model=None
    )


def test_the_config_of_a_stored_model_goes_over_the_gateways(repository: Path) -> None:
    defaults = StoredModelConfig(qos=QosConfig(alpha=3), device=DeviceConfig(index=2))
    (repository / "small" / "config.yaml").write_text("qos: {priority: 2}")
    config = stored_config(find_model(repository, "small"), defaults, str(repository))
    assert (config.qos.alpha, config.qos.priority, config.device.index) == (4, 2, 2)


def test_the_mode_is_replaced_for_models_loaded_on_request_too(repository: Path) -> None:
    config = changed(("0.args", {"models": {"device": {"mode": "slo"}}}))
    assert load_config(write(repository, config), mode="fifo").gateway.models.device.mode == "fifo"


def test_cores_that_only_models_loaded_on_request_are_pinned_to_belong_to_a_device_too(repository: Path) -> None:
    device = {"index": 3, "cores": [1]}
    config = load_config(write(repository, changed(("0.args", {"models": {"device": device}}))))
    assert config.device_cores == {1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("applications: [", "is no YAML"),
        ("- a\n- b", "must be a mapping"),
        ("applications: []", "nothing to serve"),
        ("http_options: {port: 8000}", "applications: missing"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "absent.yaml")


def test_a_configuration_without_a_gateway_is_refused(repository: Path) -> None:
    config = {"applications": GOOD["applications"][1:]}
    with pytest.raises(ConfigError, match="add one at /"):
        load_config(write(repository, config))


def test_the_file_in_the_repository_is_right_but_for_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("squeezenet", "shufflenet", "inception_v1", "resnet50", "vgg19"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "plan.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    config = load_config(ROOT / "config.yaml")
    assert len(config.models) == 5
    assert len({model.device.to_settings().device for model in config.models}) == 1


def test_each_of_several_devices_is_what_device_says_with_its_own_keys(repository: Path) -> None:
    devices = [{"index": 0, "cores": [0]}, {"index": 1, "cores": [1], "max_waiting": 5}]
    path = write(repository, changed(("1.args.devices", devices), ("2.args.device", {"index": 2, "mode": "slo"})))
    small, large = load_config(path).models
    assert [(each.to_settings().device, each.cores, each.max_waiting) for each in small.all_devices] == [
        ("cpu-0", [0], 1000),
        ("cpu-1", [1], 5),
    ]
    assert [each.index for each in large.all_devices] == [2]
    assert {each.mode for each in load_config(path, mode="fifo").models[0].all_devices} == {"fifo"}
    assert (small.num_replicas, large.num_replicas) == (2, 1)
    assert actor_options(small, small.to_settings().device) == {"num_cpus": 0}


def test_ray_books_a_share_of_a_gpu_and_hides_none(repository: Path) -> None:
    args = {"model": "small", "device": {"kind": "cuda"}, "devices": [{"index": 0}, {"index": 1}], "num_gpus": 0.2}
    config = ModelConfig.model_validate(args | {"replicas_per_device": 2})
    options = actor_options(config, config.all_devices[1].to_settings())
    assert config.num_replicas == 4
    assert options["num_gpus"] == 0.2
    assert options["runtime_env"]["env_vars"] == {
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([{"index": 1}, {"index": 1}], r"args: devices cpu-1, cpu-1: each must be another one"),
        ([{"kind": "cpu"}, {"kind": "cuda"}], r"args: devices cpu-0, cuda-0: all must be of one kind"),
        ([{"index": 0}, {"index": 1, "mode": "fast"}], r"devices\[1\]: unknown mode 'fast'"),
        (
            [{"indx": 0}],
            r"args\.devices\[0\]\.indx: unknown key \(value 0\); allowed here are .*cores, index, kind",
        ),
        ([{"index": 0}, {"index": 1, "max_waiting": 7}], r"device cpu-1: model 'small' and model 'large' disagree"),
    ],
)
def test_what_is_wrong_in_devices_is_told(repository: Path, devices: object, message: str) -> None:
    config = changed(("1.args.devices", devices), ("2.args.device.index", 1))
    with pytest.raises(ConfigError, match=message):
        load_config(write(repository, config))


def test_a_model_with_devices_leaves_the_number_of_replicas_to_them(repository: Path) -> None:
    deployments = [{"name": "SplitModel", "num_replicas": 3}]
    config = changed(("1.args.devices", [{"index": 0}, {"index": 1}]), ("1.deployments", deployments))
    with pytest.raises(ConfigError, match=r"deployments\[0\]: a model with devices has as many replicas as they"):
        load_config(write(repository, config))
