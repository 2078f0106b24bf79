package table

import (
	"encoding/json"
	"io"
)

// Report is all that a run found out. As JSON it is one document.
type Report struct {
	Machine  Machine  `json:"machine"`
	Command  string   `json:"command,omitempty"`
	Quick    bool     `json:"quick"`
	Rounds   int      `json:"rounds"`
	Run      string   `json:"run,omitempty"` // the expression that selected lines
	Warnings []string `json:"warnings,omitempty"`
	Rows     []Row    `json:"rows"`
}

// WriteJSON writes the report as one document.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// ReadJSON reads the output of WriteJSON.
func ReadJSON(rd io.Reader) (*Report, error) {
	d := json.NewDecoder(rd)
	d.DisallowUnknownFields()
	r := new(Report)
	return r, d.Decode(r)
}
