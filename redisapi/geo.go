package redisapi

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/geohash"
)

const poleDiffers = "finds members beyond a pole, too"

func geoCommands() family {
	return known("geo", "Geo",
		&command{name: "geoadd", arity: -5, flags: write, keys: oneKey, run: (*call).geoadd, since: "3.2.0", summary: "Sets the coordinates of members, optionally on conditions."},
		&command{name: "geodist", arity: -4, how: looking, flags: readonly, keys: oneKey, run: (*call).geodist, since: "3.2.0", summary: "Returns the distance of two members."},
		&command{name: "geohash", arity: -2, how: looking, flags: readonly, keys: oneKey, run: (*call).geohash, since: "3.2.0", summary: "Returns coordinates as geohashes of 11 characters."},
		&command{name: "geopos", arity: -2, how: looking, flags: readonly, keys: oneKey, run: (*call).geopos, since: "3.2.0", summary: "Returns coordinates as longitude and latitude."},
		&command{name: "georadius", arity: -6, how: changing, flags: write, keys: keys{find: geoStoreKeys}, sources: theFirst, run: (*call).georadius, since: "3.2.0", summary: "Returns, or stores, the members around a point.", differs: poleDiffers},
		&command{name: "georadius_ro", arity: -6, how: looking, flags: readonly, keys: oneKey, run: (*call).georadius, since: "3.2.10", summary: "Returns the members around a point.", differs: poleDiffers},
		&command{name: "georadiusbymember", arity: -5, how: changing, flags: write, keys: keys{find: geoStoreKeys}, sources: theFirst, run: (*call).georadius, since: "3.2.0", summary: "Returns, or stores, the members around a member.", differs: poleDiffers},
		&command{name: "georadiusbymember_ro", arity: -5, how: looking, flags: readonly, keys: oneKey, run: (*call).georadius, since: "3.2.10", summary: "Returns the members around a member.", differs: poleDiffers},
		&command{name: "geosearch", arity: -7, how: looking, flags: readonly, keys: oneKey, run: (*call).geosearch, since: "6.2.0", summary: "Returns the members in a circle, or in a box.", differs: poleDiffers},
		&command{name: "geosearchstore", arity: -8, how: changing, flags: write, keys: twoKeys, sources: theOthers, run: (*call).geosearch, since: "6.2.0", summary: "Stores the members in a circle, or in a box, and returns how many.", differs: poleDiffers},
	)
}

// geoStoreKeys are the keys of GEORADIUS: the first, and those behind STORE and STOREDIST.
func geoStoreKeys(args [][]byte) []int {
	found := []int{1}
	for i := 5; i+1 < len(args); i++ {
		if is(args[i], "STORE") || is(args[i], "STOREDIST") {
			i++
			found = append(found, i)
		}
	}
	return found
}

// geoUnit is how many metres a unit has.
func geoUnit(arg []byte) (float64, error) {
	switch {
	case is(arg, "M"):
		return 1, nil
	case is(arg, "KM"):
		return 1000, nil
	case is(arg, "FT"):
		return 0.3048, nil
	case is(arg, "MI"):
		return 1609.34, nil
	}
	return 0, errorf("ERR unsupported unit provided. please use M, KM, FT, MI")
}

// parsePoint reads longitude and latitude.
func parsePoint(lon, lat []byte) (p geohash.Point, err error) {
	if p.Lon, err = parseFloat(lon); err != nil {
		return p, err
	}
	if p.Lat, err = parseFloat(lat); err != nil {
		return p, err
	}
	if !(math.Abs(p.Lon) <= geohash.MaxLongitude && math.Abs(p.Lat) <= geohash.MaxLatitude) {
		return p, errorf("ERR invalid longitude,latitude pair %.6f,%.6f", p.Lon, p.Lat)
	}
	return p, nil
}

func (c *call) geoadd() error {
	var a adding
	at := 2
	for at < len(c.args) && a.take(c.args[at], true) {
		at++
	}
	rest := c.args[at:]
	if len(rest) == 0 || len(rest)%3 != 0 || a.nx && a.xx {
		return errSyntax
	}
	list := make([]scored, 0, len(rest)/3)
	for i := 0; i < len(rest); i += 3 {
		p, err := parsePoint(rest[i], rest[i+1])
		if err != nil {
			return err
		}
		list = append(list, scored{string(rest[i+2]), float64(p.Score())})
	}
	return c.rescore(&a, list)
}

// place is the place of a member.
func place(s *copal.SortedSetOf[string], member []byte) (p geohash.Point, ok bool, err error) {
	score, err := s.Load(string(member))
	if missing(err) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	p, ok = geohash.PointOf(score)
	return p, ok, nil
}

func (c *call) geodist() error {
	unit := 1.0
	var err error
	switch {
	case len(c.args) > 5:
		return errSyntax
	case len(c.args) == 5:
		if unit, err = geoUnit(c.args[4]); err != nil {
			return err
		}
	}
	s := c.scores()
	a, ok, err := place(s, c.args[2])
	if err != nil {
		return err
	}
	b, also, err := place(s, c.args[3])
	if err != nil {
		return err
	}
	if ok && also {
		c.replyDistance(geohash.Distance(a, b) / unit)
	} else {
		c.Null()
	}
	return nil
}

func (c *call) replyDistance(d float64) { c.Bulk(strconv.AppendFloat(nil, d, 'f', 4, 64)) }

// places calls f with the place of each member that is asked for, nil for those without.
func (c *call) places(f func(p *geohash.Point)) error {
	if _, err := c.exists(c.args[1], "zset"); err != nil {
		return err
	}
	s := c.scores()
	c.Array(len(c.args) - 2)
	for _, member := range c.args[2:] {
		p, ok, err := place(s, member)
		switch {
		case err != nil:
			return err
		case ok:
			f(&p)
		default:
			f(nil)
		}
	}
	return nil
}

func (c *call) geohash() error {
	return c.places(func(p *geohash.Point) {
		if p == nil {
			c.Null()
		} else {
			c.BulkString(p.Hash())
		}
	})
}

func (c *call) geopos() error {
	return c.places(func(p *geohash.Point) {
		if p == nil {
			c.NullArray()
		} else {
			c.replyPoint(*p)
		}
	})
}

func (c *call) replyPoint(p geohash.Point) {
	c.Array(2)
	for _, v := range []float64{p.Lon, p.Lat} {
		text := strconv.FormatFloat(v, 'f', 17, 64)
		c.longDouble(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
	}
}

// longDouble is Double of a number that is written with more digits than it needs.
func (c *call) longDouble(text string) {
	if c.V3 {
		c.Raw([]byte("," + text + "\r\n"))
	} else {
		c.BulkString(text)
	}
}

// geoQuery is what is looked for around a place.
type geoQuery struct {
	geohash.Area
	unit      float64
	count     int // 0 for all
	any       bool
	order     int // -1 the farthest first, 1 the nearest, 0 none
	withDist  bool
	withHash  bool
	withCoord bool
	store     []byte // nil for none
	storeDist bool
}

// found is a member that is there.
type found struct {
	scored
	at       geohash.Point
	distance float64 // in units
}

// takeOption reads the option at an index that GEORADIUS and GEOSEARCH have in common, and returns the index of the
// next one: i if it is none of these.
func (q *geoQuery) takeOption(args [][]byte, i int) (int, error) {
	switch arg := args[i]; {
	case is(arg, "WITHDIST"):
		q.withDist = true
	case is(arg, "WITHHASH"):
		q.withHash = true
	case is(arg, "WITHCOORD"):
		q.withCoord = true
	case is(arg, "ANY"):
		q.any = true
	case is(arg, "ASC"):
		q.order = 1
	case is(arg, "DESC"):
		q.order = -1
	case is(arg, "COUNT") && i+1 < len(args):
		n, err := parseInt(args[i+1])
		switch {
		case err != nil:
			return i, err
		case n <= 0:
			return i, errorf("ERR COUNT must be > 0")
		}
		q.count = clamped(n)
		return i + 2, nil
	default:
		return i, nil
	}
	return i + 1, nil
}

// check tells what is wrong with the options as a whole.
func (q *geoQuery) check(storing string) error {
	switch {
	case q.store != nil && (q.withDist || q.withHash || q.withCoord):
		return errorf("ERR %s is not compatible with WITHDIST, WITHHASH and WITHCOORD options", storing)
	case q.any && q.count == 0:
		return errorf("ERR the ANY argument requires COUNT argument")
	}
	if q.count > 0 && q.order == 0 && !q.any {
		q.order = 1
	}
	return nil
}

// length reads a length in the unit of the query.
func (q *geoQuery) length(arg []byte, what string) (float64, error) {
	v, err := parseFloat(arg)
	if err != nil {
		return 0, errorf("ERR need numeric %s", what)
	}
	return v, nil
}

func (q *geoQuery) circle(radius, unit []byte) (err error) {
	if q.Radius, err = q.length(radius, "radius"); err != nil {
		return err
	}
	if q.Radius < 0 {
		return errorf("ERR radius cannot be negative")
	}
	q.unit, err = geoUnit(unit)
	q.Radius *= q.unit
	return err
}

func (q *geoQuery) rectangle(width, height, unit []byte) (err error) {
	if q.Width, err = q.length(width, "width"); err != nil {
		return err
	}
	if q.Height, err = q.length(height, "height"); err != nil {
		return err
	}
	if q.Width < 0 || q.Height < 0 {
		return errorf("ERR height or width cannot be negative")
	}
	q.Box = true
	q.unit, err = geoUnit(unit)
	q.Width *= q.unit
	q.Height *= q.unit
	return err
}

// around takes the place of a member. The key exists.
func (q *geoQuery) around(s *copal.SortedSetOf[string], member []byte) error {
	p, ok, err := place(s, member)
	if err == nil && !ok {
		err = errorf("ERR could not decode requested zset member")
	}
	q.At = p
	return err
}

// georadius is GEORADIUS, GEORADIUSBYMEMBER, and those that only read.
func (c *call) georadius() error {
	exists, err := c.exists(c.args[1], "zset")
	if err != nil {
		return err
	}
	q := geoQuery{unit: 1}
	at := 6
	if strings.HasPrefix(c.cmd.name, "georadiusbymember") {
		at = 5
		if exists {
			if err := q.around(c.scores(), c.args[2]); err != nil {
				return err
			}
			err = q.circle(c.args[3], c.args[4])
		}
	} else if q.At, err = parsePoint(c.args[2], c.args[3]); err == nil {
		err = q.circle(c.args[4], c.args[5])
	}
	if err != nil {
		return err
	}
	for i := at; i < len(c.args); {
		next, err := q.takeOption(c.args, i)
		switch {
		case err != nil:
			return err
		case next > i:
			i = next
		case (is(c.args[i], "STORE") || is(c.args[i], "STOREDIST")) && i+1 < len(c.args) && !strings.HasSuffix(c.cmd.name, "_ro"):
			q.store, q.storeDist = c.args[i+1], is(c.args[i], "STOREDIST")
			i += 2
		default:
			return errSyntax
		}
	}
	if err := q.check("STORE option in GEORADIUS"); err != nil {
		return err
	}
	return c.geoReply(&q, c.args[1], exists)
}

// geosearch is GEOSEARCH and GEOSEARCHSTORE.
func (c *call) geosearch() error {
	q := geoQuery{unit: 1}
	key, rest := c.args[1], c.args[2:]
	if c.cmd.name == "geosearchstore" {
		q.store, key, rest = c.args[1], c.args[2], c.args[3:]
	}
	exists, err := c.exists(key, "zset")
	if err != nil {
		return err
	}
	var from, by bool
	for i := 0; i < len(rest); {
		next, err := q.takeOption(rest, i)
		if err != nil {
			return err
		}
		if next > i {
			i = next
			continue
		}
		left := len(rest) - i - 1
		switch arg := rest[i]; {
		case is(arg, "FROMMEMBER") && left >= 1 && !from:
			if exists {
				err = q.around(c.raw.SortedSet(key), rest[i+1])
			}
			from = true
			i += 2
		case is(arg, "FROMLONLAT") && left >= 2 && !from:
			q.At, err = parsePoint(rest[i+1], rest[i+2])
			from = true
			i += 3
		case is(arg, "BYRADIUS") && left >= 2 && !by:
			err = q.circle(rest[i+1], rest[i+2])
			by = true
			i += 3
		case is(arg, "BYBOX") && left >= 3 && !by:
			err = q.rectangle(rest[i+1], rest[i+2], rest[i+3])
			by = true
			i += 4
		case is(arg, "STOREDIST") && q.store != nil:
			q.storeDist = true
			i++
		default:
			return errSyntax
		}
		if err != nil {
			return err
		}
	}
	switch {
	case !from:
		return errorf("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for %s", c.args[0])
	case !by:
		return errorf("ERR exactly one of BYRADIUS and BYBOX can be specified for %s", c.args[0])
	}
	if err := q.check("GEOSEARCHSTORE"); err != nil {
		return err
	}
	return c.geoReply(&q, key, exists)
}

// geoReply looks for what is wanted under a key, and replies or stores it.
func (c *call) geoReply(q *geoQuery, key []byte, exists bool) error {
	var list []found
	if exists {
		list = q.search(c, c.raw.SortedSet(key))
	}
	if q.store != nil {
		return c.storeScored(q.store, func(yield func(string, float64) bool) {
			for _, f := range list {
				score := f.value
				if q.storeDist {
					score = f.distance
				}
				if !yield(f.name, score) {
					return
				}
			}
		})
	}
	parts := 1
	for _, with := range []bool{q.withDist, q.withHash, q.withCoord} {
		if with {
			parts++
		}
	}
	c.Array(len(list))
	for _, f := range steps2(c, slices.All(list)) {
		if parts > 1 {
			c.Array(parts)
		}
		c.BulkString(f.name)
		if q.withDist {
			c.replyDistance(f.distance)
		}
		if q.withHash {
			c.Int(int64(f.value))
		}
		if q.withCoord {
			c.replyPoint(f.at)
		}
	}
	return nil
}

// search returns the members that are wanted.
func (q *geoQuery) search(c *call, s *copal.SortedSetOf[string]) (list []found) {
	for _, r := range q.Scores() {
		for member, score := range steps2(c, s.Between(float64(r.Low), float64(r.High))) {
			p, ok := geohash.PointOf(score)
			if !ok {
				continue
			}
			d, in := q.Has(p)
			if !in {
				continue
			}
			list = append(list, found{scored{member, score}, p, d / q.unit})
			c.uses(len(member) + entryBytes)
			if q.any && len(list) == q.count {
				return q.sorted(list)
			}
		}
	}
	c.long(len(list))
	list = q.sorted(list)
	if q.count > 0 && q.count < len(list) {
		list = list[:q.count]
	}
	return list
}

func (q *geoQuery) sorted(list []found) []found {
	if q.order != 0 {
		slices.SortStableFunc(list, func(a, b found) int {
			switch {
			case a.distance < b.distance:
				return -q.order
			case a.distance > b.distance:
				return q.order
			}
			return 0
		})
	}
	return list
}
