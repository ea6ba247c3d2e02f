"""The server as a program, for clients that are tried by hand."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
from tests.model_server import answers as say
scripts = {"model-b": [say.text("from a file")]}
options = {"key": "right"}
"""


def test_it_prints_its_url_and_answers_from_a_file_until_it_is_interrupted(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    command = [sys.executable, "-m", "tests.model_server", "--port", "0", "--script", str(file)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        url = program.stdout.readline().strip()
        body = {"model": "model-b", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        headers = {"anthropic-version": "2026-10-21", "x-api-key": "right"}
        request = urllib.request.Request(url + "/v1/messages", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=5) as response:
            assert json.load(response)["content"][0]["text"] == "from a file"
        assert "POST /v1/messages model-b" in program.stderr.readline()
        program.send_signal(signal.SIGINT)
        assert program.wait(5) == 0
