#!/usr/bin/env bash
# Run by Gradescope once, as root, while it builds the image: tools, then the course's environment.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends bubblewrap ca-certificates g++ git python3 python3-venv
python3 -m venv "$root/uv"
"$root/uv/bin/pip" install uv==0.13.9
# Grading needs no network: from here on everything is in the image.
"$root/uv/bin/uv" sync --project "$root/source/course" GROUPS
