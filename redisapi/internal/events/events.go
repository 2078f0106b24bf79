package events

import (
	"fmt"
	"math/bits"
	"strings"
)

// Class is a set of classes of events, each of them a letter of notify-keyspace-events.
type Class uint32

// The classes. Keyspace and Keyevent choose the channels of the messages.
const (
	Keyspace Class = 1 << iota
	Keyevent
	Generic
	String
	List
	Set
	Hash
	Zset
	Expired
	Evicted
	Stream
	Module
	Miss
	New
	end
)

// Classes is the number of classes.
var Classes = bits.TrailingZeros32(uint32(end))

// All is the class A.
const All = Generic | String | List | Set | Hash | Zset | Expired | Evicted | Stream | Module

// letters are the letters of the classes, in the order in which CONFIG GET returns them.
var letters = []struct {
	letter rune
	class  Class
}{
	{'A', All}, {'g', Generic}, {'$', String}, {'l', List}, {'s', Set}, {'h', Hash}, {'z', Zset},
	{'x', Expired}, {'e', Evicted}, {'t', Stream}, {'d', Module},
	{'K', Keyspace}, {'E', Keyevent}, {'m', Miss}, {'n', New},
}

// Parse reads a value of notify-keyspace-events.
func Parse(text string) (classes Class, ok bool) {
next:
	for _, letter := range text {
		for _, l := range letters {
			if l.letter == letter {
				classes |= l.class
				continue next
			}
		}
		return 0, false
	}
	return classes, true
}

// String returns the value of notify-keyspace-events.
func (c Class) String() string {
	var b strings.Builder
	for _, l := range letters {
		if c&l.class == l.class {
			b.WriteRune(l.letter)
			c &^= l.class
		}
	}
	return b.String()
}

// names are the names of events, by their classes.
var names = map[Class]string{
	Generic: "del rename_from rename_to move_from move_to copy_to restore expire persist",
	String:  "set setrange append incrby incrbyfloat setbit pfadd",
	List:    "lpush rpush lpop rpop linsert lset lrem ltrim sortstore",
	Set:     "sadd srem spop sinterstore sunionstore sdiffstore",
	Hash:    "hset hdel hincrby hincrbyfloat",
	Zset:    "zadd zincr zrem zremrangebyscore zremrangebyrank zremrangebylex zpopmin zpopmax zunionstore zinterstore zdiffstore zrangestore georadiusstore geosearchstore",
	Expired: "expired",
	Stream:  "xadd xdel xtrim xsetid xgroup-create xgroup-setid xgroup-destroy xgroup-createconsumer xgroup-delconsumer",
	Miss:    "keymiss",
	New:     "new",
}

var classes = func() map[string]Class {
	of := map[string]Class{}
	for class, list := range names {
		for _, name := range strings.Fields(list) {
			of[name] = class
		}
	}
	return of
}()

// ClassOf returns the class of the events with a name. An unknown name is a fault of the caller.
func ClassOf(name string) Class {
	class, ok := classes[name]
	if !ok {
		panic(fmt.Sprintf("redisapi: there is no event %q", name))
	}
	return class
}

// Event is an event of a raw key.
type Event struct {
	Name string
	Key  []byte
}
