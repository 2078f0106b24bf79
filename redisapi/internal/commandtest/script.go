package commandtest

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Script runs scripts of requests and their replies: the files of redisapi/testdata.
//
// A line that begins with > is a request, and the next its reply, as ReadReply shows it. 3> is a request by RESP3. A
// line that begins with ! is a request whose reply is not that of redis-server 7.0, and one that begins with / or 3/ a
// request that has no reply. The request of > alone is empty: its reply is that to an earlier one.
type Script struct {
	Do     func(v3 bool, request string) (reply string, ok bool) // carries out a request; the script ends if ok is false
	Send   func(v3 bool, request string)                         // carries out a request without a reply
	Update bool                                                  // writes the replies to the file
	Redis  bool                                                  // skips requests with another reply than that of Redis
}

// Run carries out a script.
func (s *Script) Run(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out = append(out, line)
		request, own := strings.TrimPrefix(line, "3"), strings.HasPrefix(line, "!")
		v3 := request != line
		if strings.HasPrefix(request, "/") {
			s.Send(v3, request[1:])
			continue
		}
		if !strings.HasPrefix(request, ">") && !own {
			continue
		}
		if own && s.Redis {
			if i+1 < len(lines) && isReply(lines[i+1]) {
				i++
				out = append(out, lines[i])
			}
			continue
		}
		got, ok := s.Do(v3, request[1:])
		if !ok {
			t.Logf("%s:%d: the script ends here", name, i+1)
			return
		}
		out = append(out, got)
		if s.Update {
			if i+1 < len(lines) && isReply(lines[i+1]) {
				i++
			}
			continue
		}
		if i++; i == len(lines) || lines[i] != got {
			t.Errorf("%s:%d: %s\ngot  %s\nwant %s", name, i, line, got, lines[i:min(i+1, len(lines))])
		}
	}
	if s.Update {
		if err := os.WriteFile(name, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// isReply reports whether a line of a script is a reply.
func isReply(line string) bool {
	return line != "" && !strings.ContainsAny(line[:1], "#>!/") && !strings.HasPrefix(line, "3>") && !strings.HasPrefix(line, "3/")
}

// Split splits a line into words as strconv.Quote writes them, or without quotes.
func Split(t *testing.T, line string) (words []string) {
	t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		word, _ := strconv.Unquote(quoted)
		words, line = append(words, word), line[len(quoted):]
	}
	return words
}

// ReadReply reads a reply, and returns it as text: OK, (error) ERR no, 1, "string", nil, [1 2] for an array, ~[1] for a
// set, >[1] for a push, {1: 2} for a map, ,1.5 for a double.
func ReadReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, err
	}
	kind, line := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return line, nil
	case '-':
		return "(error) " + line, nil
	case '_':
		return "nil", nil
	case '#', ',', '(':
		return string(kind) + line, nil
	}
	n, err := strconv.Atoi(line)
	if err != nil {
		return line, err
	}
	if n < 0 {
		return "nil" + map[byte]string{'*': "[]"}[kind], nil
	}
	switch kind {
	case '$', '=':
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return strconv.Quote(string(text[:n])), err
	case '%':
		var list []string
		for range n {
			key, err := ReadReply(r)
			if err != nil {
				return key, err
			}
			value, err := ReadReply(r)
			if err != nil {
				return value, err
			}
			list = append(list, key+": "+value)
		}
		return "{" + strings.Join(list, " ") + "}", nil
	}
	var list []string
	for range n {
		each, err := ReadReply(r)
		if err != nil {
			return each, err
		}
		list = append(list, each)
	}
	return strings.TrimPrefix(string(kind), "*") + "[" + strings.Join(list, " ") + "]", nil
}
