#!/usr/bin/env bash
#
# What redis-cli does with copal serve, at the unix socket that is given.

set -euo pipefail
socket=$1

ask() { redis-cli -s "$socket" -n 1 "$@"; }

same() {
	[ "$2" = "$3" ] && return
	printf 'redis-cli: %s: %q, want %q\n' "$1" "$2" "$3" >&2
	exit 1
}

same flushall "$(ask FLUSHALL)" OK
same strings "$(printf 'SET foo bar EX 100\nGET foo\nTTL foo\nDEL foo\nGET foo\nPING\n' | ask)" $'OK\nbar\n100\n1\n\nPONG'
same collections "$(printf 'RPUSH l 1 2 3\nHSET h f v\nSADD s m\nZADD z 1.5 m\nZRANGE z 0 -1 WITHSCORES\n' | ask)" $'3\n1\n1\n1\nm\n1.5'
same scan "$(ask --scan | sort | tr '\n' ' ')" 'h l s z '
same resp3 "$(ask -3 --json HGETALL h)" '{"f":"v"}'
same transaction "$(printf 'MULTI\nINCR n\nINCR n\nEXEC\n' | ask)" $'OK\nQUEUED\nQUEUED\n1\n2'
same errors "$(ask GET l 2>&1)" 'WRONGTYPE Operation against a key holding the wrong kind of value'
same pipe "$(for i in {1..1000}; do printf 'SET k%d v\r\n' "$i"; done | ask --pipe | tail -n 1)" 'errors: 0, replies: 1000'
same bigkeys "$(ask --bigkeys | grep '^Biggest *list')" "Biggest   list found '\"l\"' has 3 items"
popped=$(
	ask BLPOP queue 20 &
	for _ in {1..100}; do
		[[ $(ask CLIENT LIST) == *cmd=blpop* ]] && break
	done
	ask RPUSH queue job >/dev/null
	wait
)
same 'blocking pop' "$popped" $'queue\njob'
printf 'redis-cli %s: ok\n' "$(redis-cli --version | cut -d ' ' -f 2)"
