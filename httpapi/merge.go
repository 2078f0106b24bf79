package httpapi

import (
	"bytes"

	"github.com/copaldb/copal/internal/ndjson"
)

// member is a member of a JSON object, as it stands.
type member struct {
	name  string
	value []byte
}

// members are those of a JSON object, in their order, of several with one name the last. Other JSON has none, and is is
// false.
func members(text []byte) (list []member, is bool, err error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return nil, false, nil
	}
	at := map[string]int{}
	err = ndjson.EachField(text, func(name string, value []byte) error {
		if i, again := at[name]; again {
			list[i].value = value
			return nil
		}
		at[name] = len(list)
		list = append(list, member{name, value})
		return nil
	})
	if err != nil {
		return nil, true, problemf(badRequest, "a JSON object: %v", err)
	}
	return list, true, nil
}

// mostLevels is how deep a merge patch goes: each level is read once more for each above it.
const mostLevels = 100

// mergePatch is the JSON that RFC 7396 makes of a value and a patch, both of which are JSON; nil is no value. What the
// patch does not speak of stays as it stands, to the byte, and in its place.
func mergePatch(value, patch []byte) ([]byte, error) {
	return appendMerged(nil, value, patch, mostLevels)
}

func appendMerged(dst, value, patch []byte, levels int) ([]byte, error) {
	if levels == 0 {
		return nil, problemf(badRequest, "a patch of more than %d levels", mostLevels)
	}
	changes, is, err := members(patch)
	if err != nil {
		return nil, err
	}
	if !is {
		return append(dst, bytes.TrimSpace(patch)...), nil
	}
	left, _, err := members(value)
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
		dst = append(ndjson.AppendString(dst, m.name), ':')
		if !changed {
			dst = append(dst, m.value...)
		} else if dst, err = appendMerged(dst, m.value, change, levels-1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}
