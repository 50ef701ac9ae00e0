# Prints the parts of the user data on standard input as cloud-init hands them to its handlers, one
# line of JSON each. The first argument is the folder of cloud-init's packages.
import base64
import json
import sys

sys.path.insert(0, sys.argv[1])

from cloudinit import handlers, user_data, util, version  # noqa: E402


class NoPaths:
    """No folder of the machine's own cloud-init is read."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: "/nonexistent"


def write(_, filename, payload, headers):
    body = util.encode_text(payload)  # as where cloud-init writes a file
    print(json.dumps({"type": headers["Content-Type"], "body": base64.b64encode(body).decode()}))


print("cloud-init", version.version_string(), file=sys.stderr)
message = user_data.UserDataProcessor(NoPaths()).process(sys.stdin.buffer.read())
handlers.walk(message, write, None)
