"""Whatever our OpenAPI descriptions allow is answered without a fault of the server."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import APIOperation, Case

from tests.e2e.conftest import EXPLAINED


@pytest.mark.parametrize("root", ["", "/v2/models/squeezenet"])
def test_every_operation_answers_what_its_description_allows(url: str, root: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}{root}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    assert operations
    for operation in operations:
        check_operation(operation)


def check_operation(operation: APIOperation) -> None:
    @settings(
        max_examples=15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        derandomize=True,
    )
    @given(case=operation.as_strategy())
    def check(case: Case) -> None:
        answer = case.call(timeout=30)
        assert answer.status_code < 500 or answer.status_code in EXPLAINED, (case, answer.text)

    check()
