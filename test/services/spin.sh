#!/usr/bin/env bash
# Spin, which checks the models in docs/, and the C compiler that its verifiers are built with.
#   spin.sh install
. "$(dirname "$0")/lib.sh"
case ${1:-help} in
  install) apt_need spin spin; apt_need gcc gcc libc6-dev;;
  *) sed -n '2,/^\./s/^# \{0,1\}//p' "$0"; exit 2;;
esac
