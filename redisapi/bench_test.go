package redisapi

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/copaldb/copal"
)

// BenchmarkPipeline sends one connection's commands sixteen at a time, over loopback.
func BenchmarkPipeline(b *testing.B) {
	const depth = 16
	set := bytes.Repeat([]byte("*3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$8\r\n12345678\r\n"), depth)
	for _, of := range []struct {
		name           string
		request, reply []byte
	}{
		{"SET", set, bytes.Repeat([]byte("+OK\r\n"), depth)},
		{"GET", bytes.Repeat([]byte("*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n"), depth), bytes.Repeat([]byte("$8\r\n12345678\r\n"), depth)},
	} {
		b.Run(of.name, func(b *testing.B) {
			db, err := copal.OpenMemory()
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			s := &Server{DB: db}
			go s.Serve(l)
			defer s.Shutdown(b.Context())
			nc, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			round := func(request, reply []byte) {
				if _, err := nc.Write(request); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(nc, reply); err != nil {
					b.Fatal(err)
				}
			}
			round(set, make([]byte, 5*depth))
			got := make([]byte, len(of.reply))
			b.ReportAllocs()
			for n := 0; n < b.N; n += depth {
				round(of.request, got)
			}
			if !bytes.Equal(got, of.reply) {
				b.Errorf("%q", got)
			}
		})
	}
}
