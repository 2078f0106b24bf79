package study

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
)

// User is the record of the study: 15 fields of the kinds that records of users have.
type User struct {
	ID          int64
	Username    string
	Email       string
	FirstName   string
	LastName    string
	Age         int32
	Height      float32
	Weight      float32
	Balance     float64
	IsActive    bool
	CreatedAt   int64
	UpdatedAt   int64
	LoginCount  int32
	Score       float64
	Description string
}

// words are the words of descriptions.
var words = [...]string{
	"reads", "the", "morning", "paper", "and", "keeps", "bees", "on", "a", "roof", "near", "harbour", "writes", "letters", "to",
	"old", "friends", "about", "trains", "weather", "small", "islands", "with", "good", "coffee", "never", "late", "often", "away",
}

// describe makes a text of 90 to 110 bytes.
func describe(random *rand.Rand) string {
	text := make([]byte, 0, 120)
	for len(text) < 90 {
		text = append(text, words[random.IntN(len(words))]...)
		text = append(text, ' ')
	}
	return string(text[:len(text)-1])
}

// epoch is when the first user came: 2020-01-01 UTC, in seconds.
const epoch = 1_577_836_800

// makeUser makes the user of a number, always the same one.
func makeUser(number uint64, u *User) {
	random := rand.New(rand.NewPCG(number, 0x5eed))
	id := strconv.FormatUint(number, 10)
	created := epoch + random.Int64N(150_000_000)
	*u = User{
		ID:          int64(number),
		Username:    "user_" + id,
		Email:       "user_" + id + "@example.com",
		FirstName:   "First_" + id,
		LastName:    "Last_" + id,
		Age:         18 + random.Int32N(60),
		Height:      150 + 50*random.Float32(),
		Weight:      50 + 100*random.Float32(),
		Balance:     10_000 * random.Float64(),
		IsActive:    random.IntN(2) == 1,
		CreatedAt:   created,
		UpdatedAt:   created + random.Int64N(30_000_000),
		LoginCount:  random.Int32N(1000),
		Score:       100 * random.Float64(),
		Description: describe(random),
	}
}

// Places of the fields that the study sums and updates.
const (
	userBalance    = 8
	userLoginCount = 12
)

// userFields has the names, and the bytes that a value takes; -1 where that varies.
var userFields = []field{
	{"ID", 8}, {"Username", -1}, {"Email", -1}, {"FirstName", -1}, {"LastName", -1}, {"Age", 4}, {"Height", 4}, {"Weight", 4},
	{"Balance", 8}, {"IsActive", 1}, {"CreatedAt", 8}, {"UpdatedAt", 8}, {"LoginCount", 4}, {"Score", 8}, {"Description", -1},
}

// users are records that are made from their numbers, without an end.
type users struct{}

func (users) Name() string       { return "users of 15 fields" }
func (users) Len() int           { return math.MaxInt }
func (users) Type() reflect.Type { return reflect.TypeFor[User]() }
func (users) Fields() []field    { return userFields }
func (users) New() any           { return new(User) }

func (users) Make(number uint64, record any) { makeUser(number, record.(*User)) }

func (users) Is(record any, number uint64) bool { return record.(*User).ID == int64(number) }

func (users) Summed() int  { return userBalance }
func (users) Updated() int { return userLoginCount }

func (users) Number(record any) float64 { return record.(*User).Balance }

func (users) NumberOf(value []byte) (float64, error) {
	if len(value) != 8 {
		return 0, errShort
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(value)), nil
}

func (users) Touch(record any, number uint64, round int) {
	record.(*User).LoginCount = int32(number)%1000 + int32(round) + 1
}

func (users) AppendField(dst []byte, record any, i int) ([]byte, error) {
	u, le := record.(*User), binary.LittleEndian
	switch i {
	case 0:
		return le.AppendUint64(dst, uint64(u.ID)), nil
	case 1:
		return append(dst, u.Username...), nil
	case 2:
		return append(dst, u.Email...), nil
	case 3:
		return append(dst, u.FirstName...), nil
	case 4:
		return append(dst, u.LastName...), nil
	case 5:
		return le.AppendUint32(dst, uint32(u.Age)), nil
	case 6:
		return le.AppendUint32(dst, math.Float32bits(u.Height)), nil
	case 7:
		return le.AppendUint32(dst, math.Float32bits(u.Weight)), nil
	case 8:
		return le.AppendUint64(dst, math.Float64bits(u.Balance)), nil
	case 9:
		return append(dst, flag(u.IsActive)), nil
	case 10:
		return le.AppendUint64(dst, uint64(u.CreatedAt)), nil
	case 11:
		return le.AppendUint64(dst, uint64(u.UpdatedAt)), nil
	case 12:
		return le.AppendUint32(dst, uint32(u.LoginCount)), nil
	case 13:
		return le.AppendUint64(dst, math.Float64bits(u.Score)), nil
	case 14:
		return append(dst, u.Description...), nil
	}
	return dst, fmt.Errorf("field %d is not one of a user", i)
}

func (users) SetField(record any, i int, value []byte) error {
	u, le := record.(*User), binary.LittleEndian
	if fixed := userFields[i].size; fixed >= 0 && len(value) != fixed {
		return errShort
	}
	switch i {
	case 0:
		u.ID = int64(le.Uint64(value))
	case 1:
		u.Username = string(value)
	case 2:
		u.Email = string(value)
	case 3:
		u.FirstName = string(value)
	case 4:
		u.LastName = string(value)
	case 5:
		u.Age = int32(le.Uint32(value))
	case 6:
		u.Height = math.Float32frombits(le.Uint32(value))
	case 7:
		u.Weight = math.Float32frombits(le.Uint32(value))
	case 8:
		u.Balance = math.Float64frombits(le.Uint64(value))
	case 9:
		u.IsActive = value[0] != 0
	case 10:
		u.CreatedAt = int64(le.Uint64(value))
	case 11:
		u.UpdatedAt = int64(le.Uint64(value))
	case 12:
		u.LoginCount = int32(le.Uint32(value))
	case 13:
		u.Score = math.Float64frombits(le.Uint64(value))
	case 14:
		u.Description = string(value)
	}
	return nil
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}
