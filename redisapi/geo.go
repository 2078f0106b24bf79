package redisapi

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal"
)

// A place is a score of a sorted set: latitude and longitude are halved 26 times each, and the 52 bits that say which
// half it was stand in turns, the longitude's first (a geohash: G. Niemeyer, 2008; G. M. Morton's order, 1966). So
// places that are near to each other mostly have scores that are near, and a square of the earth is one range of
// scores.

const (
	geoStep      = 26 // bits of a coordinate
	maxLongitude = 180.0
	maxLatitude  = 85.05112878 // of web maps (EPSG:3857)
	earthRadius  = 6372797.560856
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

// point is a place, in degrees.
type point struct{ lon, lat float64 }

// cell is which of the 2^26 parts of its range a coordinate is in, from least on.
func geoCell(v, most float64) uint32 {
	part := (v + most) / (2 * most)
	return uint32(min(max(part*(1<<geoStep), 0), 1<<geoStep-1))
}

// spread puts zeros between the bits of a coordinate.
func spread(v uint32) uint64 {
	n := uint64(v)
	n = (n | n<<16) & 0x0000ffff0000ffff
	n = (n | n<<8) & 0x00ff00ff00ff00ff
	n = (n | n<<4) & 0x0f0f0f0f0f0f0f0f
	n = (n | n<<2) & 0x3333333333333333
	return (n | n<<1) & 0x5555555555555555
}

// gather is the opposite of spread.
func gather(n uint64) uint32 {
	n &= 0x5555555555555555
	n = (n | n>>1) & 0x3333333333333333
	n = (n | n>>2) & 0x0f0f0f0f0f0f0f0f
	n = (n | n>>4) & 0x00ff00ff00ff00ff
	n = (n | n>>8) & 0x0000ffff0000ffff
	return uint32(n | n>>16)
}

// score is the score of a place.
func (p point) score() uint64 {
	return spread(geoCell(p.lat, maxLatitude)) | spread(geoCell(p.lon, maxLongitude))<<1
}

// pointOf is the middle of the cell that a score means. ok is false for a score that is none of a place.
func pointOf(score float64) (p point, ok bool) {
	if !(score >= 0 && score < 1<<(2*geoStep)) {
		return p, false
	}
	n := uint64(score)
	middle := func(cell uint32, most float64) float64 {
		low := -most + float64(cell)/(1<<geoStep)*(2*most)
		high := -most + float64(cell+1)/(1<<geoStep)*(2*most)
		return min(max((low+high)/2, -most), most)
	}
	return point{middle(gather(n>>1), maxLongitude), middle(gather(n), maxLatitude)}, true
}

func radians(degrees float64) float64 { return degrees * (math.Pi / 180) }
func degrees(radians float64) float64 { return radians * (180 / math.Pi) }

// distance returns how far two places on a sphere are apart, in metres (R. W. Sinnott, Virtues of the Haversine, 1984).
func distance(a, b point) float64 {
	v := math.Sin((radians(b.lon) - radians(a.lon)) / 2)
	if v == 0 {
		return earthRadius * math.Abs(radians(b.lat)-radians(a.lat))
	}
	u := math.Sin((radians(b.lat) - radians(a.lat)) / 2)
	return 2 * earthRadius * math.Asin(math.Sqrt(u*u+math.Cos(radians(a.lat))*math.Cos(radians(b.lat))*v*v))
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
func parsePoint(lon, lat []byte) (p point, err error) {
	if p.lon, err = parseFloat(lon); err != nil {
		return p, err
	}
	if p.lat, err = parseFloat(lat); err != nil {
		return p, err
	}
	if !(math.Abs(p.lon) <= maxLongitude && math.Abs(p.lat) <= maxLatitude) {
		return p, errorf("ERR invalid longitude,latitude pair %.6f,%.6f", p.lon, p.lat)
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
		list = append(list, scored{string(rest[i+2]), float64(p.score())})
	}
	return c.rescore(&a, list)
}

// place is the place of a member.
func place(s *copal.SortedSetOf[string], member []byte) (p point, ok bool, err error) {
	score, err := s.Load(string(member))
	if missing(err) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	p, ok = pointOf(score)
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
		c.replyDistance(distance(a, b) / unit)
	} else {
		c.Null()
	}
	return nil
}

func (c *call) replyDistance(d float64) { c.Bulk(strconv.AppendFloat(nil, d, 'f', 4, 64)) }

const geoAlphabet = "0123456789bcdefghjkmnpqrstuvwxyz"

// hash is the geohash of a place: there latitudes reach to the poles.
func (p point) hash() string {
	n := spread(geoCell(p.lat, 90)) | spread(geoCell(p.lon, maxLongitude))<<1
	var text [11]byte
	for i := range text {
		if shift := 2*geoStep - 5*(i+1); shift >= 0 {
			text[i] = geoAlphabet[n>>shift&31]
		} else {
			text[i] = geoAlphabet[0] // 52 bits are not enough for it
		}
	}
	return string(text[:])
}

// places calls f with the place of each member that is asked for, nil for those without.
func (c *call) places(f func(p *point)) error {
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
	return c.places(func(p *point) {
		if p == nil {
			c.Null()
		} else {
			c.BulkString(p.hash())
		}
	})
}

func (c *call) geopos() error {
	return c.places(func(p *point) {
		if p == nil {
			c.NullArray()
		} else {
			c.replyPoint(*p)
		}
	})
}

func (c *call) replyPoint(p point) {
	c.Array(2)
	for _, v := range []float64{p.lon, p.lat} {
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
	at            point
	radius        float64 // metres, of a circle
	width, height float64 // metres, of a box
	box           bool
	unit          float64
	count         int // 0 for all
	any           bool
	order         int // -1 the farthest first, 1 the nearest, 0 none
	withDist      bool
	withHash      bool
	withCoord     bool
	store         []byte // nil for none
	storeDist     bool
}

// found is a member that is there.
type found struct {
	scored
	at       point
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
	if q.radius, err = q.length(radius, "radius"); err != nil {
		return err
	}
	if q.radius < 0 {
		return errorf("ERR radius cannot be negative")
	}
	q.unit, err = geoUnit(unit)
	q.radius *= q.unit
	return err
}

func (q *geoQuery) rectangle(width, height, unit []byte) (err error) {
	if q.width, err = q.length(width, "width"); err != nil {
		return err
	}
	if q.height, err = q.length(height, "height"); err != nil {
		return err
	}
	if q.width < 0 || q.height < 0 {
		return errorf("ERR height or width cannot be negative")
	}
	q.box = true
	q.unit, err = geoUnit(unit)
	q.width *= q.unit
	q.height *= q.unit
	return err
}

// around takes the place of a member. The key exists.
func (q *geoQuery) around(s *copal.SortedSetOf[string], member []byte) error {
	p, ok, err := place(s, member)
	if err == nil && !ok {
		err = errorf("ERR could not decode requested zset member")
	}
	q.at = p
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
	} else if q.at, err = parsePoint(c.args[2], c.args[3]); err == nil {
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
			q.at, err = parsePoint(rest[i+1], rest[i+2])
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
	for _, r := range q.scores() {
		for member, score := range steps2(c, s.Between(float64(r.low), float64(r.high))) {
			p, ok := pointOf(score)
			if !ok {
				continue
			}
			d, in := q.has(p)
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

// has reports whether a place is looked for, and its distance in metres. In a box it is that along its own circle of
// latitude, and along the meridian, that is at most half of the width and of the height.
func (q *geoQuery) has(p point) (float64, bool) {
	if q.box {
		if distance(point{0, q.at.lat}, point{0, p.lat}) > q.height/2 ||
			distance(p, point{q.at.lon, p.lat}) > q.width/2 {
			return 0, false
		}
		return distance(q.at, p), true
	}
	d := distance(q.at, p)
	return d, d <= q.radius
}

// geoRange are the scores in [low, high).
type geoRange struct{ low, high uint64 }

// geoBox are cells of longitude and latitude, with the last ones.
type geoBox struct{ west, east, south, north uint32 }

// scores are ranges that have the scores of all places that are looked for, and of not many others.
func (q *geoQuery) scores() (ranges []geoRange) {
	const more = 1e-9 // for what is lost by rounding, in degrees
	up, aside := q.radius, q.radius
	if q.box {
		up, aside = q.height/2, q.width/2
	}
	lat := degrees(up/earthRadius) + more
	south, north := max(q.at.lat-lat, -90), min(q.at.lat+lat, 90)
	lon := maxLongitude
	// The nearer to a pole, the more degrees a length has.
	if narrowest := math.Cos(radians(max(north, -south))); q.box {
		if part := math.Sin(min(aside/earthRadius/2, math.Pi/2)) / narrowest; part < 1 {
			lon = degrees(2*math.Asin(part)) + more
		}
	} else if angle := aside / earthRadius; angle < math.Pi/2 {
		if part := math.Sin(angle) / math.Cos(radians(q.at.lat)); part < 1 {
			lon = degrees(math.Asin(part)) + more
		}
	}
	west, east := q.at.lon-lon, q.at.lon+lon
	parts := [][2]float64{{west, east}}
	switch { // beyond the line where east meets west
	case lon >= maxLongitude:
		parts = [][2]float64{{-maxLongitude, maxLongitude}}
	case west < -maxLongitude:
		parts = [][2]float64{{-maxLongitude, east}, {west + 360, maxLongitude}}
	case east > maxLongitude:
		parts = [][2]float64{{-maxLongitude, east - 360}, {west, maxLongitude}}
	}
	for _, part := range parts {
		b := geoBox{geoCell(part[0], maxLongitude), geoCell(part[1], maxLongitude),
			geoCell(south, maxLatitude), geoCell(north, maxLatitude)}
		ranges = b.cover(ranges, geoBox{0, 1<<geoStep - 1, 0, 1<<geoStep - 1}, b.finest())
	}
	return ranges
}

// finest is the width of the squares that are not divided any more: so a box has few of them across.
func (b *geoBox) finest() uint32 {
	n := uint32(1)
	for n < max(b.east-b.west, b.north-b.south)/4 {
		n *= 2
	}
	return n
}

// cover appends the ranges of scores of the squares within a square that the box has something of.
func (b *geoBox) cover(ranges []geoRange, square geoBox, finest uint32) []geoRange {
	if square.west > b.east || square.east < b.west || square.south > b.north || square.north < b.south {
		return ranges
	}
	width := square.east - square.west + 1
	within := b.west <= square.west && square.east <= b.east && b.south <= square.south && square.north <= b.north
	if within || width <= finest {
		low := spread(square.south) | spread(square.west)<<1
		high := low + uint64(width)*uint64(width)
		if last := len(ranges) - 1; last >= 0 && ranges[last].high == low {
			ranges[last].high = high
			return ranges
		}
		return append(ranges, geoRange{low, high})
	}
	half := width / 2
	for i := range uint32(4) { // in the order of the scores
		west, south := square.west+i/2*half, square.south+i%2*half
		ranges = b.cover(ranges, geoBox{west, west + half - 1, south, south + half - 1}, finest)
	}
	return ranges
}
