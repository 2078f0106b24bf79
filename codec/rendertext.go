package codec

import (
	"bytes"
	"encoding/json"
	"unsafe"
)

// string writes b as a string of JSON. Bytes that are no UTF-8 become U+FFFD.
func (w *jsonText) string(b []byte) {
	w.last = b
	w.out, _ = appendJSONString(w.out, unsafe.String(unsafe.SliceData(b), len(b)))
}

// json writes the JSON of a type that writes itself, without spaces; as a string if it is no JSON.
func (w *jsonText) json(b []byte) {
	buf := bytes.NewBuffer(w.out)
	if err := json.Compact(buf, b); err != nil {
		w.string(b)
		return
	}
	w.out = buf.Bytes()
}
