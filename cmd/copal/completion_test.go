package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/copaldb/copal"
)

// Each script completes the word in $1 as the third argument, and prints the candidates. A function
// of the shell's own completion that is missing without a terminal is made here.
var completing = map[string][]string{
	"bash": {"--norc", "--noprofile", "-c", `
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD; }
_init_completion() { COMPREPLY=(); _get_comp_words_by_ref; }
__ltrim_colon_completions() { :; }
source <(copal completion bash)
COMP_TYPE=9 COMP_WORDS=(copal get db "$1") COMP_CWORD=3 COMP_LINE="copal get db $1" COMP_POINT=${#COMP_LINE}
__start_copal 2>/dev/null
[ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}"`, "bash"},
	"zsh": {"-f", "-c", `
compdef() { : }
_describe() { print -rl -- "${(@)completions//\\:/:}" }
_arguments() { : }
source <(copal completion zsh)
words=(copal get db "$1") CURRENT=4
_copal`, "zsh"},
	"fish": {"--no-config", "-c", `
copal completion fish | source
complete -C "copal get db $argv[1]"`},
}

// Keys of a foreign store run nothing in the shell that completes them, and give no flags to the
// command. The common beginning of the candidates is put on the line without quotes, and completed
// again.
func TestCompletionOfHostileKeys(t *testing.T) {
	const run = "touch${IFS}ran"
	hostile := []string{"a b1", "a b2", "a\nb", "a\tb", "a\x1b[31m", "a\u202eb", "a\xff", "a'1", "a'2", `a"1`, `a"2`, `a\1`, "a*", "a?", "a[b]", "a{b,c}", "a~", "a#", "a!1",
		"a&touch ran&", "a;touch ran;", "a|touch ran|", "a>ran", "a<ran", "a^b^c", "a\u2019;touch ran", "-rf", "--yes", "--prefix=", "=ls", "~/x", "_activeHelp_ a", ":4", " "}
	for _, open := range []string{"$(" + run + ")", "`" + run + "`", "${x:=$(" + run + ")}", "<(" + run + ")", "%(" + run + ")"} {
		hostile = append(hostile, "c"+open, "a"+open+"1", "a"+open+"2", open+"1", open+"2")
	}
	plain := []string{"a1", "a1-2", "a1/é", "a1:2"}
	dir := t.TempDir()
	db, err := copal.Open(filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range append(hostile, plain...) {
		err = errors.Join(err, db.Raw().Set([]byte(key), []byte("v")))
		m, opened := copal.OpenMap[string, string](db, key)
		if opened == nil {
			err = errors.Join(err, m.Set(key, "v"))
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for shell, args := range completing {
		t.Run(shell, func(t *testing.T) {
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("skipped: there is no %s", shell)
			}
			complete := func(word string) []string {
				cmd := exec.Command(program, append(slices.Clone(args), word)...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "HOME="+dir)
				out, err := cmd.Output()
				if err != nil {
					t.Logf("%s %q: %v", shell, word, err) // a shell without candidates may say so
				}
				return strings.Fields(string(out))
			}
			for _, begin := range []string{"", "a", "a1", "c", "-", "$", "`"} {
				word, list := begin, []string(nil)
				if begin != "" && strings.ContainsAny(begin, "$`") {
					word = `\` + begin // so it is typed
				}
				for range 5 {
					list = complete(word)
					for _, one := range list {
						if begin != "-" && (strings.ContainsAny(one, "$`\"'\\*?[]{}()<>|&;!#~^\u2019\u202e\x1b") || !utf8.ValidString(one) || strings.HasPrefix(one, "=") || strings.HasPrefix(one, "-")) { // flags have descriptions
							t.Errorf("%q: it offers %q", word, one)
						}
					}
					if shared := sharedBy(list); len(shared) > len(word) {
						word = shared
						continue
					}
					break
				}
				for _, key := range plain {
					if begin == "a1" && !slices.Contains(list, key) && !strings.Contains(key, ":") {
						t.Errorf("of %q it offers %q", begin, list)
					}
				}
				if begin == "-" && (slices.Contains(list, "-rf") || slices.Contains(list, "--yes")) {
					t.Errorf("it offers %q as flags", list)
				}
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "ran*")); found != nil {
				t.Errorf("a key was run: %q", found)
				for _, name := range found {
					os.Remove(name)
				}
			}
		})
	}
}

// sharedBy returns the common beginning of words.
func sharedBy(list []string) string {
	if len(list) == 0 {
		return ""
	}
	shared := list[0]
	for _, word := range list[1:] {
		for !strings.HasPrefix(word, shared) {
			shared = shared[:len(shared)-1]
		}
	}
	return shared
}
