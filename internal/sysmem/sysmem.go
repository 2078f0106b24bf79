package sysmem

import "math"

// unknown is assumed if the platform does not report it.
const unknown = 4 << 30

// Total is the memory of the machine in bytes, or of the control group that the process
// runs in when that is less.
func Total() int64 {
	total := min(machine(), group())
	if total <= 0 || total == math.MaxInt64 {
		return unknown
	}
	return total
}
