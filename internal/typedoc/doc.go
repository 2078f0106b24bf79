// Package typedoc writes the shapes of stored values as types of other languages: as JSON Schema (2020-12), TypeScript
// and Go. Each describes the JSON by which a value is shown.
package typedoc
