package serving

import (
	"net"
	"os"
)

// notify sends a state to the service manager that has started the server, by sd_notify(3) of
// systemd: READY=1, or STOPPING=1. Without one, or if it does not listen, notify does nothing.
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
