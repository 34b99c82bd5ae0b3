#!/bin/sh
# The code of the functions: webmill and what it needs, for Lambda's Python, as OUT (default webmill.zip).
#
#   deploy/aws/build.sh [arm64|x86_64] [OUT]
#
# Needs Python with pip. Nothing is compiled here: all that is not pure Python comes as wheels.
set -eu
architecture=${1:-arm64}
out=${2:-webmill.zip}
python=${PYTHON:-python3}
case $architecture in
    arm64) machine=aarch64 ;;
    x86_64) machine=x86_64 ;;
    *) echo "arm64 or x86_64, not $architecture" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work/wheel" "$root"
platforms="--platform manylinux2014_$machine"
glibc=17
while [ $glibc -le 34 ]; do # what Amazon Linux 2023 has
    platforms="$platforms --platform manylinux_2_${glibc}_$machine"
    glibc=$((glibc + 1))
done
# shellcheck disable=SC2086  # words
"$python" -m pip install --quiet --disable-pip-version-check --target "$work/code" --only-binary=:all: \
    --implementation cp --python-version 3.13 $platforms \
    "$(echo "$work"/wheel/webmill-*.whl)[s3,sqs]"
find "$work/code" -name __pycache__ -type d -prune -exec rm -rf {} +
rm -rf "$work/code/bin"
rm -f "$out"
"$python" -c 'import shutil, sys; shutil.make_archive(sys.argv[1], "zip", sys.argv[1])' "$work/code"
mv "$work/code.zip" "$out"
echo "$out: $(du -k "$out" | cut -f1) KB, $(du -sk "$work/code" | cut -f1) KB when unpacked (Lambda takes 256000)" >&2
