package seglog

// progress reports how much of the log has been read. It is for long readings: a short one is not
// reported.
type progress struct {
	Tell        func(done, total int64) // may be nil
	done, total int64                   // bytes; done is those before the present segment
	start       int64                   // where reading the present one began
	told        int64
}

// progressEvery is the number of bytes between two reports.
const progressEvery = 4 << 20

// begin notes that a segment is read from an offset on.
func (p *progress) begin(offset int64) { p.start = offset }

// at notes that the present segment has been read up to an offset.
func (p *progress) at(offset int64) {
	if p.Tell == nil {
		return
	}
	if now := p.done + offset - p.start; now-p.told >= progressEvery {
		p.told = now
		p.Tell(now, max(p.total, now))
	}
}

// end notes that the present segment has been read up to an offset, its end.
func (p *progress) end(offset int64) {
	p.done += offset - p.start
	p.start = offset
}

// finish reports that everything has been read, if anything was reported.
func (p *progress) finish() {
	if p.told > 0 {
		p.Tell(p.done, p.done)
	}
}

// measure adds up the bytes that have to be read.
func (r *Recovery) measure() error {
	if r.Progress.Tell == nil {
		return nil
	}
	for _, seg := range r.segments {
		size, err := seg.File.Size()
		if err != nil {
			return err
		}
		r.Progress.total += max(size-seg.End.Load(), 0)
	}
	return nil
}
