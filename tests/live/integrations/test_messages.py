"""The messages by their bytes, and by the protocol's own descriptors where those are installed."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="needs the extra `envoy`")

from google.protobuf.struct_pb2 import Struct

from poise.live.integrations import messages as v3

# (message, its fields, its bytes by the wire format: a tag is number << 3 | kind, kind 2 is a length and 0 a varint)
WIRE: list[tuple[Any, dict[str, Any], bytes]] = [
    (v3.HttpBody, {"body": b"hi", "end_of_stream": True}, b"\x0a\x02hi\x10\x01"),
    (v3.HttpHeaders, {"end_of_stream": True}, b"\x18\x01"),
    (v3.ProcessingRequest, {"request_body": v3.HttpBody(body=b"x")}, b"\x22\x03\x0a\x01x"),
    (v3.ProcessingRequest, {"response_trailers": v3.HttpTrailers()}, b"\x3a\x00"),
    (v3.ProcessingRequest, {"protocol_config": {"request_body_mode": 4}}, b"\x5a\x02\x08\x04"),
    (v3.ProcessingResponse, {"response_body": v3.BodyResponse()}, b"\x22\x00"),
    (v3.CommonResponse, {"clear_route_cache": True}, b"\x28\x01"),
    (v3.ImmediateResponse, {"status": {"code": 429}, "details": "p"}, b"\x0a\x03\x08\xad\x03\x2a\x01p"),
    (v3.BodyMutation, {"streamed_response": v3.StreamedBodyResponse(end_of_stream=True)}, b"\x1a\x02\x10\x01"),
]


@pytest.mark.parametrize(("message", "fields", "wire"), WIRE)
def test_bytes(message: Any, fields: dict[str, Any], wire: bytes) -> None:
    assert message(**fields).SerializeToString() == wire
    assert message.FromString(wire) == message(**fields)


def test_headers_are_set_by_overwriting() -> None:
    mutation = v3.CommonResponse().header_mutation
    mutation.set_headers.add(append_action=2).header.raw_value = b"v"
    assert mutation.SerializeToString() == b"\x0a\x07\x0a\x03\x1a\x01v\x18\x02"


def test_metadata_is_a_map_of_structs() -> None:
    request = v3.ProcessingRequest()
    request.metadata_context.filter_metadata["envoy.lb"]["k"] = "v"
    inside = Struct()
    inside["k"] = "v"
    entry = b"\x0a\x08envoy.lb\x12" + bytes((len(inside.SerializeToString()),)) + inside.SerializeToString()
    metadata = b"\x0a" + bytes((len(entry),)) + entry
    assert request.SerializeToString() == b"\x42" + bytes((len(metadata),)) + metadata


def test_what_is_not_known_is_passed_over() -> None:
    assert v3.ProcessingRequest.FromString(b"\x50\x01\x22\x00").WhichOneof("request") == "request_body"


def test_the_protocol_has_them_so() -> None:
    theirs = pytest.importorskip("envoy.service.ext_proc.v3.external_processor_pb2", reason="needs xds-protos")
    seen: set[str] = set()

    def compare(ours: Any, other: Any) -> None:
        if ours.full_name in seen or ours.full_name.startswith("google."):
            assert ours.name == other.name
            return
        seen.add(ours.full_name)
        for field in ours.fields:
            same = other.fields_by_number[field.number]
            kinds = {field.type, same.type}
            assert field.name == same.name and field.is_repeated == same.is_repeated
            assert len(kinds) == 1 or kinds == {field.TYPE_INT32, field.TYPE_ENUM}
            choice, theirs = field.containing_oneof, same.containing_oneof
            assert (choice and choice.name) == (theirs and theirs.name)
            if field.message_type is not None:
                compare(field.message_type, same.message_type)

    for name in ("ProcessingRequest", "ProcessingResponse"):
        compare(getattr(v3, name).DESCRIPTOR, getattr(theirs, name).DESCRIPTOR)
    assert {name.rpartition(".")[2] for name in seen} >= set(v3.FIELDS)
