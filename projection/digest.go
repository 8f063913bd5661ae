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
	return digest([]byte(c.Mode), []byte(c.Message), c.Extra, number(c.IntervalMs), flag(c.Paused), flag(c.Standing), flag(c.Cleared), []byte(c.Active))
}

// toggle adds r to the set, or takes it out.
func (d *Digest) toggle(r *Reminder) {
	text := make([]byte, 0, 512)
	for _, f := range [...]string{r.ID, r.Message, r.Title, r.Severity, r.URL, r.Cron, r.Zone} {
		text = append(binary.LittleEndian.AppendUint64(text, uint64(len(f))), f...)
	}
	text = append(binary.LittleEndian.AppendUint64(text, uint64(len(r.Extra))), r.Extra...)
	for _, n := range [...]int64{r.Until, int64(r.Left), r.CreatedAt, r.FireAt, r.EveryMs} {
		text = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(text, 8), uint64(n))
	}
	one := sha256.Sum256(text)
	for i := range d {
		d[i] ^= one[i]
	}
}

func digest(fields ...[]byte) Digest {
	h := sha256.New()
	for _, f := range fields {
		h.Write(number(int64(len(f))))
		h.Write(f)
	}
	return Digest(h.Sum(nil)[:16])
}

func number(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

func flag(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}
