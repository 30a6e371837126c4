#!/usr/bin/env bash
# What the tests themselves need beside Go: a C compiler for the race detector. Installs what is missing.
. "$(dirname "$0")/lib.sh"
command -v go >/dev/null || die "go is missing: install Go $(sed -n 's/^go //p' "$SVC_ROOT/../../go.mod") or later"
apt_need gcc gcc libc6-dev
apt_need git git
