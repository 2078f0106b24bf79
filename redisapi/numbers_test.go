package redisapi

import "testing"

// A number outside the range of float64 is an error, as in Redis, and not infinity or 0. Bounds of a range take it.
func TestNumbersOutsideTheRange(t *testing.T) {
	_, address := newServer(t)
	ours := dial(t, address)
	ours.want("ZADD z 1 x", "1")
	ours.want("GEOADD g 1 1 m", "1")
	const no = "(error) ERR value is not a valid float"
	requests := [][2]string{
		{"ZADD z 1e400 a", no}, {"ZADD z -1e400 b", no}, {"ZADD z 1e-400 c", no}, {"ZADD z 0x1p2000 d", no}, {"ZADD z 0x1p-2000 d", no}, {"ZADD z 0.0001e-397 d", no},
		{"ZADD z INCR 1e400 e", no}, {"ZINCRBY z 1e400 f", no}, {"ZADD z 1 a 1e400 b", no}, {"ZSCORE z a", "nil"},
		{"ZUNIONSTORE d 1 z WEIGHTS 1e400", "(error) ERR weight value is not a float"}, {"ZINTER 1 z WEIGHTS 1e-400", "(error) ERR weight value is not a float"},
		{"GEOADD g 1e-400 1 n", no}, {"GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 1e400 km", "(error) ERR need numeric radius"},
		{"GEORADIUS g 0 0 1e400 km", "(error) ERR need numeric radius"}, {"GEOSEARCH g FROMLONLAT 0 0 BYBOX 1e400 1 km", "(error) ERR need numeric width"},
		{"GEOSEARCH g FROMLONLAT 1e-400 0 BYRADIUS 1 km", no}, {"INCRBYFLOAT n 1e-5000", no}, {"HINCRBYFLOAT h f 1e-5000", no}, {"EXISTS n h d", "0"},
		{"ZRANGEBYSCORE z -1e400 1e400", `["x"]`}, {"ZCOUNT z 1e-400 1e400", "1"}, {"ZCARD z", "1"},
		{"ZADD y inf a -inf b 0e400 c 0x0p9999 d 5e-324 e 1e308 f", "6"}, {"INCRBYFLOAT m 1e-400", `"0"`},
	}
	for _, r := range requests {
		ours.want(r[0], r[1])
	}
	theirs := dial(t, redisServer(t))
	theirs.want("ZADD z 1 x", "1")
	theirs.want("GEOADD g 1 1 m", "1")
	for _, r := range requests {
		theirs.want(r[0], r[1])
	}
}
