"""The messages of Envoy's external processing that the picker reads and writes, by their field numbers.

Source: envoy.service.ext_proc.v3 (external_processor.proto), and of what it takes envoy.config.core.v3 (base.proto) and
envoy.type.v3 (http_status.proto). Fields that are not listed here are skipped; enumerations are their numbers.
"""

from __future__ import annotations

from typing import Any, Final

from poise.core.errors import UserError
from poise.core.extras import install

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2
except ModuleNotFoundError:
    raise UserError(f"the Envoy integration needs protobuf; {install('envoy')}") from None

STRUCT: Final = "Struct"
MAP: Final = "map<string, Struct>"

FIELDS: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "ProcessingRequest": {
        "request_headers": (2, "HttpHeaders"),
        "response_headers": (3, "HttpHeaders"),
        "request_body": (4, "HttpBody"),
        "response_body": (5, "HttpBody"),
        "request_trailers": (6, "HttpTrailers"),
        "response_trailers": (7, "HttpTrailers"),
        "metadata_context": (8, "Metadata"),
        "attributes": (9, MAP),
        "protocol_config": (11, "ProtocolConfiguration"),
    },
    "ProcessingResponse": {
        "request_headers": (1, "HeadersResponse"),
        "response_headers": (2, "HeadersResponse"),
        "request_body": (3, "BodyResponse"),
        "response_body": (4, "BodyResponse"),
        "request_trailers": (5, "TrailersResponse"),
        "response_trailers": (6, "TrailersResponse"),
        "immediate_response": (7, "ImmediateResponse"),
        "dynamic_metadata": (8, STRUCT),
    },
    "ProtocolConfiguration": {"request_body_mode": (1, "int32"), "response_body_mode": (2, "int32")},
    "HttpHeaders": {"headers": (1, "HeaderMap"), "end_of_stream": (3, "bool")},
    "HttpBody": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "HttpTrailers": {"trailers": (1, "HeaderMap")},
    "HeadersResponse": {"response": (1, "CommonResponse")},
    "BodyResponse": {"response": (1, "CommonResponse")},
    "TrailersResponse": {"header_mutation": (1, "HeaderMutation")},
    "CommonResponse": {
        "status": (1, "int32"),
        "header_mutation": (2, "HeaderMutation"),
        "body_mutation": (3, "BodyMutation"),
        "clear_route_cache": (5, "bool"),
    },
    "ImmediateResponse": {
        "status": (1, "HttpStatus"),
        "headers": (2, "HeaderMutation"),
        "body": (3, "bytes"),
        "details": (5, "string"),
    },
    "HeaderMutation": {"set_headers": (1, "repeated HeaderValueOption"), "remove_headers": (2, "repeated string")},
    "BodyMutation": {"body": (1, "bytes"), "clear_body": (2, "bool"), "streamed_response": (3, "StreamedBodyResponse")},
    "StreamedBodyResponse": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "HeaderMap": {"headers": (1, "repeated HeaderValue")},
    "HeaderValue": {"key": (1, "string"), "value": (2, "string"), "raw_value": (3, "bytes")},
    "HeaderValueOption": {"header": (1, "HeaderValue"), "append_action": (3, "int32")},
    "HttpStatus": {"code": (1, "int32")},
    "Metadata": {"filter_metadata": (1, MAP)},
}
"""Number and type of each field that is used, by message."""

ONE_OF: Final = {
    "ProcessingRequest": ("request", range(2, 8)),
    "ProcessingResponse": ("response", range(1, 8)),
    "BodyMutation": ("mutation", range(1, 4)),
}
"""The fields of a `oneof`, by number, and its name, by message."""

_PACKAGE: Final = "poise.ext_proc"
_Field = descriptor_pb2.FieldDescriptorProto
_PLAIN: Final = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
}


def _classes() -> dict[str, Any]:
    """A class for each message, from a descriptor pool of our own: the names may be taken in the default pool."""
    file = descriptor_pb2.FileDescriptorProto(
        name="poise/ext_proc.proto", package=_PACKAGE, syntax="proto3", dependency=["google/protobuf/struct.proto"]
    )
    for name in FIELDS:
        _describe(file.message_type.add(name=name), name)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    found = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in FIELDS}
    return {name: message_factory.GetMessageClass(each) for name, each in found.items()}


def _describe(message: Any, name: str) -> None:
    choice, numbers = ONE_OF.get(name, ("", range(0)))
    if choice:
        message.oneof_decl.add(name=choice)
    for field, (number, kind) in FIELDS[name].items():
        made = message.field.add(name=field, number=number, label=_Field.LABEL_OPTIONAL)
        if kind == MAP:
            kind = f"repeated {name}.{_entry(message, field)}"
        if kind.startswith("repeated "):
            kind, made.label = kind.removeprefix("repeated "), _Field.LABEL_REPEATED
        _type(made, kind)
        if number in numbers:
            made.oneof_index = 0


def _entry(message: Any, field: str) -> str:
    """The name of the message for one entry of a map, as protobuf has it."""
    entry = message.nested_type.add(name="".join(map(str.title, field.split("_"))) + "Entry")
    entry.options.map_entry = True
    for number, (name, kind) in enumerate((("key", "string"), ("value", STRUCT)), 1):
        _type(entry.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL), kind)
    return str(entry.name)


def _type(field: Any, kind: str) -> None:
    field.type = _PLAIN.get(kind, _Field.TYPE_MESSAGE)
    if kind not in _PLAIN:
        field.type_name = ".google.protobuf.Struct" if kind == STRUCT else f".{_PACKAGE}.{kind}"


_MADE: Final = _classes()
ProcessingRequest: Final = _MADE["ProcessingRequest"]
ProcessingResponse: Final = _MADE["ProcessingResponse"]
HttpHeaders: Final = _MADE["HttpHeaders"]
HttpBody: Final = _MADE["HttpBody"]
HttpTrailers: Final = _MADE["HttpTrailers"]
HeadersResponse: Final = _MADE["HeadersResponse"]
BodyResponse: Final = _MADE["BodyResponse"]
TrailersResponse: Final = _MADE["TrailersResponse"]
CommonResponse: Final = _MADE["CommonResponse"]
BodyMutation: Final = _MADE["BodyMutation"]
StreamedBodyResponse: Final = _MADE["StreamedBodyResponse"]
ImmediateResponse: Final = _MADE["ImmediateResponse"]
