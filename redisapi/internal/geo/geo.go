package geo

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/geohash"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/sortedsets"
)

const poleDiffers = "finds members beyond a pole, too"

func Rows() command.Family {
	return command.NewFamily("geo", "Geo",
		&command.Row{Name: "geoadd", Arity: -5, Flags: command.Write, Keys: command.OneKey, Run: geoadd, Since: "3.2.0", Summary: "Sets the coordinates of members, optionally on conditions."},
		&command.Row{Name: "geodist", Arity: -4, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: geodist, Since: "3.2.0", Summary: "Returns the distance of two members."},
		&command.Row{Name: "geohash", Arity: -2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: geohashes, Since: "3.2.0", Summary: "Returns coordinates as geohashes of 11 characters."},
		&command.Row{Name: "geopos", Arity: -2, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: geopos, Since: "3.2.0", Summary: "Returns coordinates as longitude and latitude."},
		&command.Row{Name: "georadius", Arity: -6, How: command.Changing, Flags: command.Write, Keys: command.Keys{Find: geoStoreKeys}, Sources: command.TheFirst, Run: georadius, Since: "3.2.0", Summary: "Returns, or stores, the members around a point.", Differs: poleDiffers},
		&command.Row{Name: "georadius_ro", Arity: -6, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: georadius, Since: "3.2.10", Summary: "Returns the members around a point.", Differs: poleDiffers},
		&command.Row{Name: "georadiusbymember", Arity: -5, How: command.Changing, Flags: command.Write, Keys: command.Keys{Find: geoStoreKeys}, Sources: command.TheFirst, Run: georadius, Since: "3.2.0", Summary: "Returns, or stores, the members around a member.", Differs: poleDiffers},
		&command.Row{Name: "georadiusbymember_ro", Arity: -5, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: georadius, Since: "3.2.10", Summary: "Returns the members around a member.", Differs: poleDiffers},
		&command.Row{Name: "geosearch", Arity: -7, How: command.Looking, Flags: command.ReadOnly, Keys: command.OneKey, Run: geosearch, Since: "6.2.0", Summary: "Returns the members in a circle, or in a box.", Differs: poleDiffers},
		&command.Row{Name: "geosearchstore", Arity: -8, How: command.Changing, Flags: command.Write, Keys: command.TwoKeys, Sources: command.TheOthers, Run: geosearch, Since: "6.2.0", Summary: "Stores the members in a circle, or in a box, and returns how many.", Differs: poleDiffers},
	)
}

// geoStoreKeys are the keys of GEORADIUS: the first, and those after STORE and STOREDIST.
func geoStoreKeys(args [][]byte) []int {
	found := []int{1}
	for i := 5; i+1 < len(args); i++ {
		if command.Is(args[i], "STORE") || command.Is(args[i], "STOREDIST") {
			i++
			found = append(found, i)
		}
	}
	return found
}

// geoUnit is how many metres a unit has.
func geoUnit(arg []byte) (float64, error) {
	switch {
	case command.Is(arg, "M"):
		return 1, nil
	case command.Is(arg, "KM"):
		return 1000, nil
	case command.Is(arg, "FT"):
		return 0.3048, nil
	case command.Is(arg, "MI"):
		return 1609.34, nil
	}
	return 0, command.Errorf("ERR unsupported unit provided. please use M, KM, FT, MI")
}

// parsePoint reads longitude and latitude.
func parsePoint(lon, lat []byte) (p geohash.Point, err error) {
	if p.Lon, err = command.ParseFloat(lon); err != nil {
		return p, err
	}
	if p.Lat, err = command.ParseFloat(lat); err != nil {
		return p, err
	}
	if !(math.Abs(p.Lon) <= geohash.MaxLongitude && math.Abs(p.Lat) <= geohash.MaxLatitude) {
		return p, command.Errorf("ERR invalid longitude,latitude pair %.6f,%.6f", p.Lon, p.Lat)
	}
	return p, nil
}

func geoadd(c *command.Call) error {
	var a sortedsets.Adding
	at := 2
	for at < len(c.Args) && a.Take(c.Args[at], true) {
		at++
	}
	rest := c.Args[at:]
	if len(rest) == 0 || len(rest)%3 != 0 || a.NX && a.XX {
		return command.ErrSyntax
	}
	list := make([]sortedsets.Scored, 0, len(rest)/3)
	for i := 0; i < len(rest); i += 3 {
		p, err := parsePoint(rest[i], rest[i+1])
		if err != nil {
			return err
		}
		list = append(list, sortedsets.Scored{Name: string(rest[i+2]), Value: float64(p.Score())})
	}
	return sortedsets.Rescore(c, &a, list)
}

// place is the place of a member.
func place(s *copal.SortedSetOf[string], member []byte) (p geohash.Point, ok bool, err error) {
	score, err := s.Load(string(member))
	if command.IsMissing(err) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	p, ok = geohash.PointOf(score)
	return p, ok, nil
}

func geodist(c *command.Call) error {
	unit := 1.0
	var err error
	switch {
	case len(c.Args) > 5:
		return command.ErrSyntax
	case len(c.Args) == 5:
		if unit, err = geoUnit(c.Args[4]); err != nil {
			return err
		}
	}
	s := sortedsets.Scores(c)
	a, ok, err := place(s, c.Args[2])
	if err != nil {
		return err
	}
	b, also, err := place(s, c.Args[3])
	if err != nil {
		return err
	}
	if ok && also {
		replyDistance(c, geohash.Distance(a, b)/unit)
	} else {
		c.Null()
	}
	return nil
}

func replyDistance(c *command.Call, d float64) { c.Bulk(strconv.AppendFloat(nil, d, 'f', 4, 64)) }

// places calls f with the place of each member that is asked for, nil for those without.
func places(c *command.Call, f func(p *geohash.Point)) error {
	if _, err := c.Exists(c.Args[1], "zset"); err != nil {
		return err
	}
	s := sortedsets.Scores(c)
	c.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
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

func geohashes(c *command.Call) error {
	return places(c, func(p *geohash.Point) {
		if p == nil {
			c.Null()
		} else {
			c.BulkString(p.Hash())
		}
	})
}

func geopos(c *command.Call) error {
	return places(c, func(p *geohash.Point) {
		if p == nil {
			c.NullArray()
		} else {
			replyPoint(c, *p)
		}
	})
}

func replyPoint(c *command.Call, p geohash.Point) {
	c.Array(2)
	for _, v := range []float64{p.Lon, p.Lat} {
		text := strconv.FormatFloat(v, 'f', 17, 64)
		longDouble(c, strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
	}
}

// longDouble is Double of a number that is written with more digits than it needs.
func longDouble(c *command.Call, text string) {
	if c.V3 {
		c.Raw([]byte("," + text + "\r\n"))
	} else {
		c.BulkString(text)
	}
}

// geoQuery is a search around a place.
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
	sortedsets.Scored
	at       geohash.Point
	distance float64 // in units
}

// takeOption reads the option at an index that GEORADIUS and GEOSEARCH have in common, and returns the index of the
// next one: i if it is none of these.
func (q *geoQuery) takeOption(args [][]byte, i int) (int, error) {
	switch arg := args[i]; {
	case command.Is(arg, "WITHDIST"):
		q.withDist = true
	case command.Is(arg, "WITHHASH"):
		q.withHash = true
	case command.Is(arg, "WITHCOORD"):
		q.withCoord = true
	case command.Is(arg, "ANY"):
		q.any = true
	case command.Is(arg, "ASC"):
		q.order = 1
	case command.Is(arg, "DESC"):
		q.order = -1
	case command.Is(arg, "COUNT") && i+1 < len(args):
		n, err := command.ParseInt(args[i+1])
		switch {
		case err != nil:
			return i, err
		case n <= 0:
			return i, command.Errorf("ERR COUNT must be > 0")
		}
		q.count = command.Clamped(n)
		return i + 2, nil
	default:
		return i, nil
	}
	return i + 1, nil
}

// check returns the error of options that do not fit each other.
func (q *geoQuery) check(storing string) error {
	switch {
	case q.store != nil && (q.withDist || q.withHash || q.withCoord):
		return command.Errorf("ERR %s is not compatible with WITHDIST, WITHHASH and WITHCOORD options", storing)
	case q.any && q.count == 0:
		return command.Errorf("ERR the ANY argument requires COUNT argument")
	}
	if q.count > 0 && q.order == 0 && !q.any {
		q.order = 1
	}
	return nil
}

// length reads a length in the unit of the query.
func (q *geoQuery) length(arg []byte, what string) (float64, error) {
	v, err := command.ParseFloat(arg)
	if err != nil {
		return 0, command.Errorf("ERR need numeric %s", what)
	}
	return v, nil
}

func (q *geoQuery) circle(radius, unit []byte) (err error) {
	if q.Radius, err = q.length(radius, "radius"); err != nil {
		return err
	}
	if q.Radius < 0 {
		return command.Errorf("ERR radius cannot be negative")
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
		return command.Errorf("ERR height or width cannot be negative")
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
		err = command.Errorf("ERR could not decode requested zset member")
	}
	q.At = p
	return err
}

// georadius is GEORADIUS, GEORADIUSBYMEMBER, and those that only read.
func georadius(c *command.Call) error {
	exists, err := c.Exists(c.Args[1], "zset")
	if err != nil {
		return err
	}
	q := geoQuery{unit: 1}
	at := 6
	if strings.HasPrefix(c.Row.Name, "georadiusbymember") {
		at = 5
		if exists {
			if err := q.around(sortedsets.Scores(c), c.Args[2]); err != nil {
				return err
			}
			err = q.circle(c.Args[3], c.Args[4])
		}
	} else if q.At, err = parsePoint(c.Args[2], c.Args[3]); err == nil {
		err = q.circle(c.Args[4], c.Args[5])
	}
	if err != nil {
		return err
	}
	for i := at; i < len(c.Args); {
		next, err := q.takeOption(c.Args, i)
		switch {
		case err != nil:
			return err
		case next > i:
			i = next
		case (command.Is(c.Args[i], "STORE") || command.Is(c.Args[i], "STOREDIST")) && i+1 < len(c.Args) && !strings.HasSuffix(c.Row.Name, "_ro"):
			q.store, q.storeDist = c.Args[i+1], command.Is(c.Args[i], "STOREDIST")
			i += 2
		default:
			return command.ErrSyntax
		}
	}
	if err := q.check("STORE option in GEORADIUS"); err != nil {
		return err
	}
	return geoReply(c, &q, c.Args[1], exists)
}

// geosearch is GEOSEARCH and GEOSEARCHSTORE.
func geosearch(c *command.Call) error {
	q := geoQuery{unit: 1}
	key, rest := c.Args[1], c.Args[2:]
	if c.Row.Name == "geosearchstore" {
		q.store, key, rest = c.Args[1], c.Args[2], c.Args[3:]
	}
	exists, err := c.Exists(key, "zset")
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
		case command.Is(arg, "FROMMEMBER") && left >= 1 && !from:
			if exists {
				err = q.around(c.Store.SortedSet(key), rest[i+1])
			}
			from = true
			i += 2
		case command.Is(arg, "FROMLONLAT") && left >= 2 && !from:
			q.At, err = parsePoint(rest[i+1], rest[i+2])
			from = true
			i += 3
		case command.Is(arg, "BYRADIUS") && left >= 2 && !by:
			err = q.circle(rest[i+1], rest[i+2])
			by = true
			i += 3
		case command.Is(arg, "BYBOX") && left >= 3 && !by:
			err = q.rectangle(rest[i+1], rest[i+2], rest[i+3])
			by = true
			i += 4
		case command.Is(arg, "STOREDIST") && q.store != nil:
			q.storeDist = true
			i++
		default:
			return command.ErrSyntax
		}
		if err != nil {
			return err
		}
	}
	switch {
	case !from:
		return command.Errorf("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for %s", c.Args[0])
	case !by:
		return command.Errorf("ERR exactly one of BYRADIUS and BYBOX can be specified for %s", c.Args[0])
	}
	if err := q.check("GEOSEARCHSTORE"); err != nil {
		return err
	}
	return geoReply(c, &q, key, exists)
}

// geoReply searches a key, and replies or stores the members.
func geoReply(c *command.Call, q *geoQuery, key []byte, exists bool) error {
	var list []found
	if exists {
		list = q.search(c, c.Store.SortedSet(key))
	}
	if q.store != nil {
		event := "georadiusstore"
		if c.Row.Name == "geosearchstore" {
			event = "geosearchstore"
		}
		return sortedsets.StoreScored(c, event, q.store, func(yield func(string, float64) bool) {
			for _, f := range list {
				score := f.Value
				if q.storeDist {
					score = f.distance
				}
				if !yield(f.Name, score) {
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
	for _, f := range command.Steps2(c, slices.All(list)) {
		if parts > 1 {
			c.Array(parts)
		}
		c.BulkString(f.Name)
		if q.withDist {
			replyDistance(c, f.distance)
		}
		if q.withHash {
			c.Int(int64(f.Value))
		}
		if q.withCoord {
			replyPoint(c, f.at)
		}
	}
	return nil
}

// search returns the members that are wanted.
func (q *geoQuery) search(c *command.Call, s *copal.SortedSetOf[string]) (list []found) {
	for _, r := range q.Scores() {
		for member, score := range command.Steps2(c, s.Between(float64(r.Low), float64(r.High))) {
			p, ok := geohash.PointOf(score)
			if !ok {
				continue
			}
			d, in := q.Has(p)
			if !in {
				continue
			}
			list = append(list, found{sortedsets.Scored{Name: member, Value: score}, p, d / q.unit})
			c.Uses(len(member) + command.EntryBytes)
			if q.any && len(list) == q.count {
				return q.sorted(list)
			}
		}
	}
	c.Long(len(list))
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
