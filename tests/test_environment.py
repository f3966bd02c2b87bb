"""Tests run the same for everybody: `conftest.py` takes away what their environment sets."""

import json

import pytest
from python_process import run_python

FOREIGN = {
    "AGENTMEM_EMBEDDING_PROVIDER": "openai_compatible",
    "OPENAI_API_KEY": "sk-somebodys",
    "LANGSMITH_TRACING": "true",
    "LANGCHAIN_TRACING_V2": "true",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "no_proxy": "localhost",
}


@pytest.mark.parametrize("kept", ["AGENTMEM_DATA", "AGENTMEM_MODELS"])
def test_settings_of_whoever_runs_the_tests_do_not_reach_them(kept: str) -> None:
    script = "import conftest, json, os; print(json.dumps(list(os.environ)))"

    done = run_python(script, **FOREIGN, **{kept: "a-folder"})

    assert done.returncode == 0, done.stderr
    left = set(json.loads(done.stdout))
    assert not left & FOREIGN.keys()
    assert kept in left
