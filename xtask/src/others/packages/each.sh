#!/bin/sh
# each.sh SECONDS LIST COMMAND...
# Runs the command with the words of each line of the list, one after the other, and marks in what it
# prints where each began and how it ended.
set -u
seconds=$1
list=$2
shift 2
while read -r words; do
    printf '\n=== begin %s\n' "$words"
    status=0
    # shellcheck disable=SC2086 # They are words.
    timeout --kill-after=5 "$seconds" "$@" $words </dev/null || status=$?
    printf '\n=== end %s\n' "$status"
done <"$list"
