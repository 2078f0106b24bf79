package keycodec

import (
	"bytes"
	"encoding"
	"fmt"
)

// textSlow is the codec of a type K of which K or *K has MarshalText and UnmarshalText.
func textSlow[K comparable]() slow[K] {
	s := slow[K]{append: appendText[K], decode: decodeText[K], compare: compareText[K]}
	if _, ok := any(*new(K)).(interface{ Compare(K) int }); ok {
		s.compare = func(a, b K) int {
			if c := any(a).(interface{ Compare(K) int }).Compare(b); c != 0 {
				return c
			}
			return compareText(a, b)
		}
	}
	return s
}

func appendText[K comparable](dst []byte, k K) ([]byte, error) {
	text, err := any(&k).(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return dst, fmt.Errorf("%T is %w: MarshalText: %w", k, ErrKey, err)
	}
	return append(dst, text...), nil
}

// decodeText gives UnmarshalText a copy, which it may keep.
func decodeText[K comparable](b []byte) (k K, err error) {
	err = any(&k).(encoding.TextUnmarshaler).UnmarshalText(bytes.Clone(b))
	return k, err
}

// compareText takes a key without text, which no map holds, for one with empty text.
func compareText[K comparable](a, b K) int {
	x, _ := appendText(nil, a)
	y, _ := appendText(nil, b)
	return bytes.Compare(x, y)
}
