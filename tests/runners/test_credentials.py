"""A credential is named by where it is; whatever goes wrong, its value is not told."""

import pytest
from pydantic import BaseModel, ValidationError

from swarmd.errors import Failed
from swarmd.runners.credentials import Reference, problems, resolve

KEY = "sk-ant-api03-not-to-be-told"


class Table(BaseModel):
    credential: Reference


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    return path


def test_each_place_gives_the_key_without_the_end_of_its_line(key_file, tmp_path):
    assert resolve("env:THE_KEY", {"THE_KEY": KEY}, "/") == KEY
    assert resolve("file:key", {}, str(tmp_path)) == KEY
    assert resolve(f"file:{key_file}", {}, "/") == KEY
    assert resolve("systemd:key", {"CREDENTIALS_DIRECTORY": str(tmp_path)}, "/") == KEY


@pytest.mark.parametrize(
    "text", [KEY, "", "env:", "env:A B", "systemd:a/b", "systemd:..", "file:", "file:a\0b", "vault:x"]
)
def test_what_is_no_reference_is_refused_and_not_repeated(text):
    with pytest.raises(ValidationError) as error:
        Table(credential=text)
    message = error.value.errors()[0]["msg"]
    assert "env:NAME, file:PATH or systemd:NAME" in message
    assert KEY not in message
    with pytest.raises(Failed) as failed:
        resolve(text, {}, "/")
    assert KEY not in str(failed.value)


def test_a_variable_that_is_not_there_is_named():
    assert problems("env:THE_KEY", {}) == ["credential env:THE_KEY: the daemon's environment has no THE_KEY"]
    assert problems("env:THE_KEY", {"THE_KEY": KEY}) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_may_read_is_refused(key_file, mode):
    key_file.chmod(mode)
    with pytest.raises(Failed, match="others may read") as error:
        resolve(f"file:{key_file}", {}, "/")
    assert KEY not in str(error.value)


def test_systemd_may_give_its_own_group_a_look(key_file, tmp_path):
    key_file.chmod(0o440)
    assert resolve("systemd:key", {"CREDENTIALS_DIRECTORY": str(tmp_path)}, "/") == KEY
    assert "LoadCredential=key:" in problems("systemd:key", {})[0]


def test_what_cannot_be_a_key_is_refused(key_file, tmp_path):
    key_file.write_text("two words")
    assert "no single word" in problems("file:key", {}, str(tmp_path))[0]
    key_file.write_text(" \n")
    assert "it is empty" in problems("file:key", {}, str(tmp_path))[0]
    key_file.write_text("x" * 20_000)
    assert "more than" in problems("file:key", {}, str(tmp_path))[0]
    assert "no regular file" in problems("file:/", {})[0]
    assert "No such file" in problems("file:gone", {}, str(tmp_path))[0]
