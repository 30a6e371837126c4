package object

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"exactly/sink"
)

// Name is what the name of a final file says: whose it is and which range of
// the task's outbox it is from. It holds no attempt, so that every attempt
// would give the same range the same name; only one range is ever decided.
type Name struct {
	Pipeline    string
	Sink        string
	Generation  int32
	Task        int32
	From        sink.Pos // exclusive
	Through     sink.Pos // inclusive; nothing behind it is in the file
	Incarnation string
	Part        int    // number of the file in its group, from 0
	Nonce       string // AtLeastOnce: 8 hex digits; else ""
	Ext         string // of the format: "jsonl", "jsonl.gz", "jsonl.zst", "parquet"
}

// String gives the file name, without its folder:
//
//	pipeline.sink.g1.t0.<from>.<through>.<incarnation>.p0[.r<nonce>].ext
//
// Positions are padded, so that the names of a task sort by range.
func (n Name) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.%s.g%d.t%d.%012d-%08d.%012d-%08d.%s.p%d",
		escape(n.Pipeline), escape(n.Sink), n.Generation, n.Task,
		n.From.Epoch, n.From.Index, n.Through.Epoch, n.Through.Index, escape(n.Incarnation), n.Part)
	if n.Nonce != "" {
		b.WriteString(".r" + escape(n.Nonce))
	}
	return b.String() + "." + n.Ext
}

var exts = map[string]bool{"jsonl": true, "jsonl.gz": true, "jsonl.zst": true, "parquet": true}

// ParseName reads what String gives, and nothing else.
func ParseName(s string) (Name, error) {
	f := strings.Split(s, ".")
	if len(f) < 9 {
		return Name{}, fmt.Errorf("file name %q is none of exactly's: too few parts", s)
	}
	var p parser
	n := Name{
		Pipeline: p.text(f[0]), Sink: p.text(f[1]), Generation: p.int32(f[2], "g"), Task: p.int32(f[3], "t"),
		From: p.pos(f[4]), Through: p.pos(f[5]), Incarnation: p.text(f[6]), Part: int(p.int32(f[7], "p")),
	}
	rest := f[8:]
	if nonce, ok := strings.CutPrefix(rest[0], "r"); ok && len(rest) > 1 {
		n.Nonce, rest = p.text(nonce), rest[1:]
	}
	n.Ext = strings.Join(rest, ".")
	if p.err == nil && !exts[n.Ext] {
		p.err = fmt.Errorf("unknown extension %q", n.Ext)
	}
	if p.err == nil && n.String() != s {
		p.err = fmt.Errorf("it is not written as exactly writes it")
	}
	if p.err != nil {
		return Name{}, fmt.Errorf("file name %q is none of exactly's: %w", s, p.err)
	}
	return n, nil
}

// stagedName names an upload of one attempt.
type stagedName struct {
	Pipeline    string
	Sink        string
	Generation  int32
	Task        int32
	Incarnation string
	Attempt     int64
	Seq         int64 // number of the upload in its attempt
}

const stagedEnd = "part"

func (n stagedName) String() string {
	return fmt.Sprintf("%s.%s.g%d.t%d.%s.a%d.n%d.%s",
		escape(n.Pipeline), escape(n.Sink), n.Generation, n.Task, escape(n.Incarnation), n.Attempt, n.Seq, stagedEnd)
}

func parseStaged(s string) (stagedName, error) {
	f := strings.Split(s, ".")
	if len(f) != 8 || f[7] != stagedEnd {
		return stagedName{}, fmt.Errorf("staged name %q is none of exactly's", s)
	}
	var p parser
	n := stagedName{
		Pipeline: p.text(f[0]), Sink: p.text(f[1]), Generation: p.int32(f[2], "g"), Task: p.int32(f[3], "t"),
		Incarnation: p.text(f[4]), Attempt: p.int64(f[5], "a"), Seq: p.int64(f[6], "n"),
	}
	if p.err == nil && n.String() != s {
		p.err = fmt.Errorf("it is not written as exactly writes it")
	}
	if p.err != nil {
		return stagedName{}, fmt.Errorf("staged name %q is none of exactly's: %w", s, p.err)
	}
	return n, nil
}

// ofOwner reports whether the upload is of exactly this task, any attempt.
func (n stagedName) ofOwner(o sink.Owner) bool {
	return n.Incarnation == o.Incarnation && n.Pipeline == o.Pipeline && n.Sink == o.Sink &&
		n.Generation == o.Generation && n.Task == o.Task
}

// ofOlder reports whether the upload is of an older generation of this sink.
func (n stagedName) ofOlder(o sink.Owner) bool {
	return n.Incarnation == o.Incarnation && n.Pipeline == o.Pipeline && n.Sink == o.Sink && n.Generation < o.Generation
}

// escape leaves letters, digits, "-" and "_" and writes every other byte as
// %XX, so that no part of a name holds the dot that separates them.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if plain(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

var escaped = regexp.MustCompile(`%[0-9A-F]{2}`)

// parser keeps the first error.
type parser struct{ err error }

func (p *parser) text(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(x string) string {
		c, _ := strconv.ParseUint(x[1:], 16, 8) // matched
		return string([]byte{byte(c)})
	})
}

func (p *parser) int64(s, prefix string) int64 {
	digits, ok := strings.CutPrefix(s, prefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	if (!ok || err != nil || n < 0) && p.err == nil {
		p.err = fmt.Errorf("%q is not %q and a number", s, prefix)
	}
	return n
}

func (p *parser) int32(s, prefix string) int32 {
	n := p.int64(s, prefix)
	if int64(int32(n)) != n && p.err == nil {
		p.err = fmt.Errorf("%q is too large", s)
	}
	return int32(n)
}

func (p *parser) pos(s string) sink.Pos {
	epoch, index, ok := strings.Cut(s, "-")
	if !ok && p.err == nil {
		p.err = fmt.Errorf("%q is not epoch-index", s)
	}
	return sink.Pos{Epoch: p.int64(epoch, ""), Index: p.int64(index, "")}
}
