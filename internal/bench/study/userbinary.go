package study

import (
	"encoding/binary"
	"math"
)

// userBinary is concatenated for a user, as a person writes it by hand: the fastest that a program
// can do without a library. The bytes are the same.
type userBinary struct{}

func (userBinary) Append(dst []byte, record any) ([]byte, error) {
	u, le := record.(*User), binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(u.ID))
	dst = appendText(dst, u.Username)
	dst = appendText(dst, u.Email)
	dst = appendText(dst, u.FirstName)
	dst = appendText(dst, u.LastName)
	dst = le.AppendUint32(dst, uint32(u.Age))
	dst = le.AppendUint32(dst, math.Float32bits(u.Height))
	dst = le.AppendUint32(dst, math.Float32bits(u.Weight))
	dst = le.AppendUint64(dst, math.Float64bits(u.Balance))
	dst = append(dst, flag(u.IsActive))
	dst = le.AppendUint64(dst, uint64(u.CreatedAt))
	dst = le.AppendUint64(dst, uint64(u.UpdatedAt))
	dst = le.AppendUint32(dst, uint32(u.LoginCount))
	dst = le.AppendUint64(dst, math.Float64bits(u.Score))
	return appendText(dst, u.Description), nil
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// Lengths of the parts between the texts.
const (
	beforeTexts  = 8
	behindTexts  = 4 + 4 + 4 + 8 + 1 + 8 + 8 + 4 + 8
	untilBalance = 4 + 4 + 4
)

func (userBinary) Decode(src []byte, record any) error {
	u, le := record.(*User), binary.LittleEndian
	if len(src) < beforeTexts {
		return errShort
	}
	u.ID = int64(le.Uint64(src))
	src = src[beforeTexts:]
	for _, text := range [...]*string{&u.Username, &u.Email, &u.FirstName, &u.LastName} {
		var ok bool
		if *text, src, ok = cutText(src); !ok {
			return errShort
		}
	}
	if len(src) < behindTexts {
		return errShort
	}
	fixed, rest := src[:behindTexts], src[behindTexts:]
	u.Age = int32(le.Uint32(fixed))
	u.Height = math.Float32frombits(le.Uint32(fixed[4:]))
	u.Weight = math.Float32frombits(le.Uint32(fixed[8:]))
	u.Balance = math.Float64frombits(le.Uint64(fixed[12:]))
	u.IsActive = fixed[20] != 0
	u.CreatedAt = int64(le.Uint64(fixed[21:]))
	u.UpdatedAt = int64(le.Uint64(fixed[29:]))
	u.LoginCount = int32(le.Uint32(fixed[37:]))
	u.Score = math.Float64frombits(le.Uint64(fixed[41:]))
	var ok bool
	if u.Description, _, ok = cutText(rest); !ok {
		return errShort
	}
	return nil
}

// Number steps over the texts before the balance.
func (userBinary) Number(src []byte, _ any) (float64, error) {
	if len(src) < beforeTexts {
		return 0, errShort
	}
	src = src[beforeTexts:]
	for range 4 {
		n, w := binary.Uvarint(src)
		if w <= 0 || n > uint64(len(src)-w) {
			return 0, errShort
		}
		src = src[w+int(n):]
	}
	if len(src) < behindTexts {
		return 0, errShort
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(src[untilBalance:])), nil
}

func cutText(src []byte) (text string, rest []byte, ok bool) {
	n, w := binary.Uvarint(src)
	if w <= 0 || n > uint64(len(src)-w) {
		return "", nil, false
	}
	return string(src[w : w+int(n)]), src[w+int(n):], true
}
