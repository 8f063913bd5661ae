package projection

import (
	"crypto/sha256"
	"encoding/binary"
)

// Digest stands for what a view shows, whatever its bytes look like: equal ones show the same. That of a set of reminders is the exclusive or of its members',
// so that it follows each event at no cost.
type Digest [16]byte

// RemindersDigest is the digest of what the reminders view shows now.
func (s *State) RemindersDigest() Digest { return s.digest }

// DigestReminders is the digest of a reminders view with these entries.
func DigestReminders(all []Reminder) Digest {
	var d Digest
	for i := range all {
		d.toggle(&all[i])
	}
	return d
}

// Digest is the digest of what the config view shows.
func (c *Config) Digest() Digest {
	return fields(nil).text(c.Mode, c.Message, string(c.Extra)).number(c.IntervalMs).flag(c.Paused, c.Standing, c.Cleared).text(c.Active).digest()
}

// toggle adds r to the set, or takes it out.
func (d *Digest) toggle(r *Reminder) {
	more := r.Details()
	one := make(fields, 0, 512).text(r.ID, r.Message, more.Title, more.Severity, more.URL, more.Cron, more.Zone, string(more.Extra), more.Repeats, more.From).
		number(more.Until, int64(more.Left), r.CreatedAt, r.FireAt, r.EveryMs).digest()
	for i := range d {
		d[i] ^= one[i]
	}
}

// fields are what a digest is of, each behind its length.
type fields []byte

func (f fields) text(all ...string) fields {
	for _, s := range all {
		f = append(binary.LittleEndian.AppendUint64(f, uint64(len(s))), s...)
	}
	return f
}

func (f fields) number(all ...int64) fields {
	for _, n := range all {
		f = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(f, 8), uint64(n))
	}
	return f
}

func (f fields) flag(all ...bool) fields {
	for _, b := range all {
		bit := "\x00"
		if b {
			bit = "\x01"
		}
		f = f.text(bit)
	}
	return f
}

func (f fields) digest() Digest {
	sum := sha256.Sum256(f)
	return Digest(sum[:16])
}
