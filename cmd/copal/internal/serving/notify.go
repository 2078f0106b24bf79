package serving

import (
	"net"
	"os"
)

// notify tells the service manager that has started the server how that is, by sd_notify(3) of systemd: READY=1, or
// STOPPING=1. Where there is none, or it does not listen, nothing happens.
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	c, err := net.Dial("unixgram", path) // a name that begins with @ is one without a file
	if err != nil {
		return
	}
	defer c.Close()
	c.Write([]byte(state))
}
