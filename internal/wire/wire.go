package wire

import "crypto/sha256"

// SchemaName returns the name of a schema between processes, whose stores number it differently:
// the beginning of the SHA-256 of the codec's name, a space and the schema's text. Eight zero bytes
// are no schema.
func SchemaName(codec, text string) [8]byte {
	sum := sha256.Sum256([]byte(codec + " " + text))
	return [8]byte(sum[:8])
}
