// Package keycodec turns the keys of typed maps into canonical bytes and back.
//
// The bytes are part of the file format and frozen: the same key is the same bytes
// on every machine and in every version, equal keys are equal bytes, and bytes in
// another spelling than the canonical one are not a key. A full key is the escaped
// name of its map, a colon, and the key's own bytes.
//
//	key type                       bytes                           example
//	string kinds                   the string itself               alice
//	int and uint kinds             decimal                         -42
//	bool                           true or false                   true
//	float kinds                    shortest, 'g'; no -0; NaN       1e+21
//	[N]byte                        2N lower-case hex digits        00ff
//	arrays of the above but string elements joined by commas       1,-2,3
//	time.Time                      UTC, nine fractional digits     2006-01-02T15:04:05.000000000Z
//	TextMarshaler and -Unmarshaler its text                        10.0.0.1
//	structs, other arrays          parts joined by slashes         kitchen/-42
//
// In a part of a struct or an array, a slash is %2f and a percent sign %25. The parts of a struct
// or an array that is a part itself take its place.
package keycodec
