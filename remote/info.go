package remote

import (
	"context"
	"strings"
)

// Info returns the fields of each master's reply to INFO.
func (r *redis) Info(ctx context.Context) (list []map[string]string, err error) {
	nodes, err := r.masters(ctx)
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		m, err := r.onto(node.on).get(ctx, ask("INFO"))
		if err != nil {
			return nil, err
		}
		text, err := m.ToString()
		if err != nil {
			return nil, refusal(err)
		}
		said := map[string]string{}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
				said[name] = value
			}
		}
		list = append(list, said)
	}
	return list, nil
}
