// Package record is one line of the log: the bytes of a record and of a segment header, and nothing
// else. It does no I/O; recovery decides about bytes that are not a record.
//
// A record is text up to its key, and then the key's and the value's own bytes:
//
//	1f0c9a3e Sv 0 1 2f 3e8 X19a8c3d2e10 b 1c users:alice {"Name":"Alice","Age":28}⏎
//	───┬──── ┬┬ ┬ ┬ ─┬ ─┬─ ─────┬────── ┬ ─┬ ─────┬───── ────────────┬───────────
//	   │     ││ │ │  │  │       │       │  │      │                  value
//	   │     ││ │ │  │  │       │       │  │      key
//	   │     ││ │ │  │  │       │       │  value bytes
//	   │     ││ │ │  │  │       │       key bytes
//	   │     ││ │ │  │  │       attributes, none or more
//	   │     ││ │ │  │  milliseconds since the start of the segment
//	   │     ││ │ │  sequence number
//	   │     ││ │ schema number, 0 = raw bytes
//	   │     ││ key space
//	   │     │kind
//	   │     operation
//	   CRC-32C of salt, offset and all that follows it up to and with the line feed
//
// Every number is lower-case hexadecimal without leading zeros, the CRC alone
// has always eight digits. There is one spelling of every record, so each flipped
// bit shows. docs/format.md is the full page.
package record
