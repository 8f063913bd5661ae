package projection

import (
	"bytes"
	"strconv"
	"time"
)

// Instant is a point in time in Unix milliseconds. In JSON it is RFC 3339 in UTC with milliseconds; 0, which stands for
// none, is null.
type Instant int64

// MarshalJSON is the instant as protocols carry it (SPEC 1.3).
func (i Instant) MarshalJSON() ([]byte, error) { return i.AppendJSON(nil), nil }

// AppendJSON adds the instant as protocols carry it.
func (i Instant) AppendJSON(dst []byte) []byte {
	if i == 0 {
		return append(dst, "null"...)
	}
	return Moment(i).AppendJSON(dst)
}

// String is the instant in RFC 3339, in UTC with milliseconds.
func (i Instant) String() string { return string(Moment(i).append(nil)) }

// Moment is an [Instant] that is always there: 0 is 1970.
type Moment int64

// AppendJSON adds the moment as protocols carry it.
func (m Moment) AppendJSON(dst []byte) []byte { return append(m.append(append(dst, '"')), '"') }

// append adds the moment in RFC 3339, in UTC with milliseconds.
func (m Moment) append(dst []byte) []byte {
	t := time.UnixMilli(int64(m)).UTC()
	dst = bytes.TrimSuffix(t.AppendFormat(dst, time.RFC3339), []byte("Z")) // of layouts, package time is quick with its own alone
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst, '.', '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z')
}

// Length is a length of time in milliseconds. In JSON it is a decimal number of seconds, exact and without an exponent.
type Length int64

// AppendJSON adds the length as views and protocols carry it.
func (l Length) AppendJSON(dst []byte) []byte {
	if l < 0 {
		dst, l = append(dst, '-'), -l
	}
	dst = strconv.AppendInt(dst, int64(l)/1000, 10)
	if ms := l % 1000; ms != 0 {
		dst = append(dst, '.', '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10))
		dst = bytes.TrimRight(dst, "0")
	}
	return dst
}

// String is the length's number of seconds.
func (l Length) String() string { return string(l.AppendJSON(nil)) }
