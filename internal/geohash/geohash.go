package geohash

import "math"

// The bounds of coordinates.
const (
	step         = 26          // bits of a coordinate
	MaxLongitude = 180.0       // degrees
	MaxLatitude  = 85.05112878 // degrees, of web maps (EPSG:3857)
	earthRadius  = 6372797.560856
)

// Point is a place, in degrees.
type Point struct{ Lon, Lat float64 }

// cell is which of the 2^26 parts of its range a coordinate is in, from least on.
func cell(v, most float64) uint32 {
	part := (v + most) / (2 * most)
	return uint32(min(max(part*(1<<step), 0), 1<<step-1))
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

// Score is the score of a place.
func (p Point) Score() uint64 {
	return spread(cell(p.Lat, MaxLatitude)) | spread(cell(p.Lon, MaxLongitude))<<1
}

// PointOf is the middle of the cell that a score means. ok is false for a score that is none of a place.
func PointOf(score float64) (p Point, ok bool) {
	if !(score >= 0 && score < 1<<(2*step)) {
		return p, false
	}
	n := uint64(score)
	middle := func(cell uint32, most float64) float64 {
		low := -most + float64(cell)/(1<<step)*(2*most)
		high := -most + float64(cell+1)/(1<<step)*(2*most)
		return min(max((low+high)/2, -most), most)
	}
	return Point{middle(gather(n>>1), MaxLongitude), middle(gather(n), MaxLatitude)}, true
}

func radians(degrees float64) float64 { return degrees * (math.Pi / 180) }
func degrees(radians float64) float64 { return radians * (180 / math.Pi) }

// Distance returns how far two places on a sphere are apart, in metres (R. W. Sinnott, Virtues of the Haversine, 1984).
func Distance(a, b Point) float64 {
	v := math.Sin((radians(b.Lon) - radians(a.Lon)) / 2)
	if v == 0 {
		return earthRadius * math.Abs(radians(b.Lat)-radians(a.Lat))
	}
	u := math.Sin((radians(b.Lat) - radians(a.Lat)) / 2)
	return 2 * earthRadius * math.Asin(math.Sqrt(u*u+math.Cos(radians(a.Lat))*math.Cos(radians(b.Lat))*v*v))
}

const alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"

// Hash is the geohash of a place as text: there latitudes reach to the poles.
func (p Point) Hash() string {
	n := spread(cell(p.Lat, 90)) | spread(cell(p.Lon, MaxLongitude))<<1
	var text [11]byte
	for i := range text {
		if shift := 2*step - 5*(i+1); shift >= 0 {
			text[i] = alphabet[n>>shift&31]
		} else {
			text[i] = alphabet[0] // 52 bits are not enough for it
		}
	}
	return string(text[:])
}

// Area is a circle or a box around a place.
type Area struct {
	At            Point
	Radius        float64 // metres, of a circle
	Width, Height float64 // metres, of a box
	Box           bool
}

// Has reports whether a place is in the area, and its distance in metres. In a box it is that along its own circle of
// latitude, and along the meridian, that is at most half of the width and of the height.
func (a *Area) Has(p Point) (float64, bool) {
	if a.Box {
		if Distance(Point{0, a.At.Lat}, Point{0, p.Lat}) > a.Height/2 ||
			Distance(p, Point{a.At.Lon, p.Lat}) > a.Width/2 {
			return 0, false
		}
		return Distance(a.At, p), true
	}
	d := Distance(a.At, p)
	return d, d <= a.Radius
}

// Range is the scores in [low, high).
type Range struct{ Low, High uint64 }

// box are cells of longitude and latitude, with the last ones.
type box struct{ west, east, south, north uint32 }

// Scores are ranges that have the scores of all places in the area, and of not many others.
func (a *Area) Scores() (ranges []Range) {
	const more = 1e-9 // for what is lost by rounding, in degrees
	up, aside := a.Radius, a.Radius
	if a.Box {
		up, aside = a.Height/2, a.Width/2
	}
	lat := degrees(up/earthRadius) + more
	south, north := max(a.At.Lat-lat, -90), min(a.At.Lat+lat, 90)
	lon := MaxLongitude
	// The nearer to a pole, the more degrees a length has.
	if narrowest := math.Cos(radians(max(north, -south))); a.Box {
		if part := math.Sin(min(aside/earthRadius/2, math.Pi/2)) / narrowest; part < 1 {
			lon = degrees(2*math.Asin(part)) + more
		}
	} else if angle := aside / earthRadius; angle < math.Pi/2 {
		if part := math.Sin(angle) / math.Cos(radians(a.At.Lat)); part < 1 {
			lon = degrees(math.Asin(part)) + more
		}
	}
	west, east := a.At.Lon-lon, a.At.Lon+lon
	parts := [][2]float64{{west, east}}
	switch { // beyond the line where east meets west
	case lon >= MaxLongitude:
		parts = [][2]float64{{-MaxLongitude, MaxLongitude}}
	case west < -MaxLongitude:
		parts = [][2]float64{{-MaxLongitude, east}, {west + 360, MaxLongitude}}
	case east > MaxLongitude:
		parts = [][2]float64{{-MaxLongitude, east - 360}, {west, MaxLongitude}}
	}
	for _, part := range parts {
		b := box{cell(part[0], MaxLongitude), cell(part[1], MaxLongitude),
			cell(south, MaxLatitude), cell(north, MaxLatitude)}
		ranges = b.cover(ranges, box{0, 1<<step - 1, 0, 1<<step - 1}, b.finest())
	}
	return ranges
}

// finest is the width of the squares that are not divided any more: so a box has few of them across.
func (b *box) finest() uint32 {
	n := uint32(1)
	for n < max(b.east-b.west, b.north-b.south)/4 {
		n *= 2
	}
	return n
}

// cover appends the ranges of scores of the squares within a square that the box has something of.
func (b *box) cover(ranges []Range, square box, finest uint32) []Range {
	if square.west > b.east || square.east < b.west || square.south > b.north || square.north < b.south {
		return ranges
	}
	width := square.east - square.west + 1
	within := b.west <= square.west && square.east <= b.east && b.south <= square.south && square.north <= b.north
	if within || width <= finest {
		low := spread(square.south) | spread(square.west)<<1
		high := low + uint64(width)*uint64(width)
		if last := len(ranges) - 1; last >= 0 && ranges[last].High == low {
			ranges[last].High = high
			return ranges
		}
		return append(ranges, Range{low, high})
	}
	half := width / 2
	for i := range uint32(4) { // in the order of the scores
		west, south := square.west+i/2*half, square.south+i%2*half
		ranges = b.cover(ranges, box{west, west + half - 1, south, south + half - 1}, finest)
	}
	return ranges
}
