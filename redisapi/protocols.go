package redisapi

import (
	"bytes"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// A port is open to clients of any protocol. A web page can make its browser connect to any port of
// the user's machine and send lines, some of which the page chooses. The parser takes a line for a
// command that a person has typed. So the first line of another protocol ends the connection before
// the next line is carried out.

// protocolOf returns the protocol of a line that is no command of Redis, and "" for any other line. The line has one
// word at least. No command that could succeed is such a line, except for a COPY or SET whose last word is a version of
// HTTP and whose second word is a path.
func protocolOf(words [][]byte) string {
	name := words[0]
	for _, b := range name {
		if b <= ' ' || b > '~' {
			return "binary"
		}
	}
	if protocol := openings[string(command.Lower(nil, name))]; protocol != "" {
		return protocol
	}
	switch {
	case bytes.HasSuffix(name, []byte(":")):
		return "HTTP" // a header
	case bytes.HasPrefix(name, []byte("SSH-")):
		return "SSH"
	case isRequestLine(words):
		return "HTTP"
	case isStorageLine(words):
		return "memcached"
	}
	return ""
}

// openings are the first words by which clients of other protocols begin, and which are no commands here.
var openings = map[string]string{
	"post": "HTTP", "put": "HTTP", "patch": "HTTP", "delete": "HTTP", "head": "HTTP", "options": "HTTP", "connect": "HTTP", "trace": "HTTP", "pri": "HTTP",
	"propfind": "HTTP", "proppatch": "HTTP", "mkcol": "HTTP", "lock": "HTTP", "unlock": "HTTP", "report": "HTTP", "search": "HTTP", "query": "HTTP",
	"helo": "SMTP", "ehlo": "SMTP", "lhlo": "SMTP", "mail": "SMTP", "rcpt": "SMTP", "data": "SMTP", "starttls": "SMTP",
	"user": "FTP", "pass": "FTP", "nick": "IRC", "proxy": "PROXY", "cas": "memcached", "add": "memcached", "replace": "memcached", "prepend": "memcached",
	"ms": "memcached", "mg": "memcached", "md": "memcached", "mn": "memcached",
}

// isRequestLine reports whether a line is one of HTTP/1, or of a protocol of its form, such as RTSP or SIP: a method,
// which a page may choose freely, a target and a version.
func isRequestLine(words [][]byte) bool {
	if len(words) != 3 {
		return false
	}
	target, version := words[1], words[2]
	protocol, _, ok := bytes.Cut(version, []byte("/"))
	switch {
	case !ok || string(protocol) != "HTTP" && string(protocol) != "RTSP" && string(protocol) != "SIP" && string(protocol) != "ICAP":
		return false
	case command.Is(words[0], "GET"): // never a command with three words
		return true
	}
	return bytes.HasPrefix(target, []byte("/")) || string(target) == "*" || bytes.ContainsRune(target, ':')
}

// isStorageLine reports whether a line is one by which a client of memcached writes: after it comes a value, which
// must not be carried out as commands. SET and APPEND of Redis have no such form.
func isStorageLine(words [][]byte) bool {
	if len(words) != 5 && len(words) != 6 || !command.Is(words[0], "SET") && !command.Is(words[0], "APPEND") {
		return false
	}
	for _, number := range words[2:5] {
		if _, err := command.ParseInt(number); err != nil {
			return false
		}
	}
	return true
}
