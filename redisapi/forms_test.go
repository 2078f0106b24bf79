package redisapi

import (
	"fmt"
	"strings"
)

// forms are further requests of TestLikeRedis. Those of one line mostly use the same keys. The
// letters are replaced: K by one of a few keys, G by a key of places, M by a member or a field, N
// by a whole number, V by a value, and F by a score that is exact in binary, because redis-server
// 7.0 and 7.2 print other scores differently. The replies to requests with ~ have no order.
var forms = strings.Split(`SET K V|SET K V NX|SET K V GET|SET K V XX KEEPTTL|GET K|GETSET K V|GETDEL K|SETNX K V|APPEND K V|STRLEN K|GETRANGE K N N|SETRANGE K 3 V|INCR K|INCRBY K N|DECRBY K N|INCRBYFLOAT K F
MSET K V K V|MGET K K K|MSETNX K V K V|DEL K|DEL K K|EXISTS K K|TYPE K|RENAME K K|RENAMENX K K|COPY K K|COPY K K REPLACE|EXPIREAT K 4102444800|EXPIREAT K 4102444800 NX|PERSIST K|EXPIRETIME K|LCS K K|LCS K K LEN
HSET K M V|HSET K M V M V|HGET K M|HSETNX K M V|HMGET K M M|~HGETALL K|~HKEYS K|HLEN K|HEXISTS K M|HDEL K M|HDEL K M M|HINCRBY K M N|HINCRBYFLOAT K M F|HSTRLEN K M
SADD K M|SADD K M M M|SREM K M|SREM K M M|SCARD K|SISMEMBER K M|SMISMEMBER K M M|~SMEMBERS K|SMOVE K K M|~SINTER K K|~SUNION K K|~SDIFF K K|SINTERCARD 2 K K|SINTERSTORE K K K|SUNIONSTORE K K K|SDIFFSTORE K K K
ZADD K F M|ZADD K F M F M|ZADD K NX F M|ZADD K XX CH F M|ZADD K GT CH F M|ZADD K LT F M|ZADD K INCR F M|ZINCRBY K F M|ZSCORE K M|ZMSCORE K M M|ZREM K M|ZCARD K|ZRANK K M|ZREVRANK K M|ZCOUNT K F F|ZCOUNT K (F +inf
ZRANGE K N N WITHSCORES|ZRANGE K N N REV|ZRANGEBYSCORE K F F LIMIT 1 2|ZREVRANGEBYSCORE K F (F WITHSCORES|ZRANGE K -inf F BYSCORE|ZPOPMIN K|ZPOPMAX K 2|ZREMRANGEBYRANK K N N|ZREMRANGEBYSCORE K F F|ZMPOP 2 K K MIN COUNT 2
ZUNION 2 K K WITHSCORES|ZINTER 2 K K WITHSCORES AGGREGATE MAX|ZDIFF 2 K K WITHSCORES|ZUNIONSTORE K 2 K K WEIGHTS 2 N|ZINTERSTORE K 2 K K|ZDIFFSTORE K 2 K K|ZINTERCARD 2 K K|ZRANGESTORE K K N N|ZADD lex 0 M|ZREM lex M|ZLEXCOUNT lex (M +|ZRANGEBYLEX lex - [M|ZREVRANGEBYLEX lex (M [M LIMIT 1 2|ZREMRANGEBYLEX lex (M [M
LPUSH K V|RPUSH K V V|LPUSHX K V|LPOP K|RPOP K 2|LLEN K|LRANGE K N N|LINDEX K N|LSET K N V|LINSERT K BEFORE V V|LREM K N V|LTRIM K N N|LPOS K V|LPOS K V COUNT 0|LMOVE K K LEFT RIGHT|LMOVE K K RIGHT RIGHT|RPOPLPUSH K K|LMPOP 2 K K LEFT COUNT 2
SETBIT K 13 1|GETBIT K N|BITCOUNT K|BITCOUNT K N N BIT|BITPOS K 1|BITPOS K 0 N|BITOP XOR K K K|BITOP NOT K K|BITFIELD K INCRBY u5 N 7 GET i9 3|BITFIELD K OVERFLOW SAT INCRBY i6 #1 F
GEOADD G 13.36 38.1 M|GEOADD G 2.35 48.85 M|GEODIST G M M|GEOPOS G M|GEOHASH G M|GEOSEARCH G FROMLONLAT 10 40 BYRADIUS 1500 km ASC|GEOSEARCH G FROMLONLAT 10 40 BYBOX 1500 1500 km DESC WITHDIST`, "\n")

// keysOfForms are all keys that forms have.
func keysOfForms() string {
	list := "lex places towns"
	for line := range forms {
		list += fmt.Sprintf(" k%d.1 k%d.2", line, line)
	}
	return list
}

// form makes a request of a form.
func (g *generator) form() (request string, ordered bool) {
	line := g.IntN(len(forms))
	list := strings.Split(forms[line], "|")
	form, unordered := strings.CutPrefix(list[g.IntN(len(list))], "~")
	words := strings.Fields(form)
	for i, w := range words {
		prefix := ""
		if strings.HasPrefix(w, "(") || strings.HasPrefix(w, "[") {
			prefix, w = w[:1], w[1:]
		}
		switch w {
		case "K":
			n := line
			if g.IntN(12) == 0 {
				n = g.IntN(len(forms))
			}
			w = fmt.Sprintf("k%d.%s", n, g.of("1 2"))
		case "G":
			w = g.of("places towns")
		case "M":
			w = g.of(`x y z long-member "" 10`)
		case "V":
			w = g.of(`x 1 22 text "" 3.5`)
		case "N":
			w = g.of("0 1 2 -1 -2 5 100")
		case "F":
			w = g.of("0 1 1.5 -3 10 0.25 2")
		}
		words[i] = prefix + w
	}
	return strings.Join(words, " "), !unordered
}
