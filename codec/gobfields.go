package codec

// gobFielder writes a stored shape as encoding/gob must see it to decode into a type
// of today: fields that are no longer there have names that no exported field has.
//
// Otherwise a gob.Decoder would look for them also among the fields of embedded structs,
// which are stored apart, and put into one of these what was another.
type gobFielder map[[2]*Shape]*Shape

// under returns the shape of what was stored as s and fits now.
func (g gobFielder) under(s, now *Shape) *Shape {
	pair := [2]*Shape{s, now}
	if known := g[pair]; known != nil {
		return known
	}
	seen := *s
	g[pair] = &seen
	if s.Key != nil {
		seen.Key = g.under(s.Key, now.Key)
	}
	if s.Elem != nil {
		seen.Elem = g.under(s.Elem, now.Elem)
	}
	seen.Fields = nil
	for _, field := range s.Fields {
		if to := now.field(field.Name, false); to != nil {
			field.Shape = g.under(field.Shape, to.Shape)
		} else {
			field.Name = "_" + field.Name
		}
		seen.Fields = append(seen.Fields, field)
	}
	return &seen
}
