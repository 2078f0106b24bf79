package httpapi

import (
	"bytes"
	"errors"

	"github.com/copaldb/copal/internal/jsontext"
)

// member is a member of a JSON object, in its own bytes.
type member struct {
	name  string
	value []byte
}

// memberBytes is about the memory that a member takes beside its name.
const memberBytes = 200

// members are those of a JSON object, in their order, of several with one name the last. Other JSON has none, and is is
// false. take counts their memory, and its error ends the work.
func members(take func(int64) error, text []byte) (list []member, is bool, err error) {
	if err := take(0); err != nil {
		return nil, false, err
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return nil, false, nil
	}
	at := map[string]int{}
	err = jsontext.EachField(text, func(name string, value []byte) error {
		if i, again := at[name]; again {
			list[i].value = value
			return nil
		}
		if err := take(memberBytes + int64(len(name))); err != nil {
			return err
		}
		at[name] = len(list)
		list = append(list, member{name, value})
		return nil
	})
	var p *problem
	if err != nil && !errors.As(err, &p) {
		err = problemf(badRequest, "a JSON object: %v", err)
	}
	if err != nil {
		return nil, true, err
	}
	return list, true, nil
}

// mostLevels is how deep a merge patch goes: each level is read once more for each above it.
const mostLevels = 100

// mergePatch returns the JSON that RFC 7396 makes of a value and a patch, both of which are JSON; nil
// is no value. Members that the patch does not name keep their bytes and their places. take counts
// the memory.
func mergePatch(take func(int64) error, value, patch []byte) ([]byte, error) {
	return appendMerged(take, nil, value, patch, mostLevels)
}

func appendMerged(take func(int64) error, dst, value, patch []byte, levels int) ([]byte, error) {
	if levels == 0 {
		return nil, problemf(badRequest, "a patch of more than %d levels", mostLevels)
	}
	changes, is, err := members(take, patch)
	if err != nil {
		return nil, err
	}
	if !is {
		return append(dst, bytes.TrimSpace(patch)...), nil
	}
	left, _, err := members(take, value)
	if err != nil {
		return nil, err
	}
	by, there := map[string][]byte{}, map[string]bool{}
	for _, m := range left {
		there[m.name] = true
	}
	for _, c := range changes {
		if by[c.name] = c.value; !there[c.name] {
			left = append(left, member{c.name, nil})
		}
	}
	dst = append(dst, '{')
	first := true
	for _, m := range left {
		change, changed := by[m.name]
		if string(change) == "null" {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(jsontext.AppendString(dst, m.name), ':')
		if !changed {
			dst = append(dst, m.value...)
		} else if dst, err = appendMerged(take, dst, m.value, change, levels-1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}
