package config

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"exactly/internal/broker"
)

// check looks at what no single setting shows. Each check runs only where the
// settings that it needs were read without error.
func (l *loader) check(f *File) {
	l.checkSinkList(f)
	if l.clean("pipeline") {
		l.derive(f)
	}
	l.checkKafka(f)
	l.checkTopics(f)
	l.checkStart(f)
	l.checkEpoch(f)
	l.checkSteps(f)
	l.checkListen(f)
	l.checkSettings(f)
	l.compile(f)
}

// clean reports that nothing at or below the paths is wrong so far.
func (l *loader) clean(paths ...string) bool {
	for _, e := range l.errs {
		for _, p := range paths {
			if e.Path == p || strings.HasPrefix(e.Path, p+".") || strings.HasPrefix(e.Path, p+"[") || strings.HasPrefix(p, e.Path+".") {
				return false
			}
		}
	}
	return true
}

// derive fills in defaults that follow from other settings.
func (l *loader) derive(f *File) {
	if f.DeadLetters.Topic == "" {
		f.DeadLetters.Topic = f.Pipeline + ".dlq"
		l.origins["dead_letters.topic"] = origin{from: fromDerived, why: "pipeline and .dlq"}
	}
	if f.Kafka.HeartbeatInterval == 0 {
		f.Kafka.HeartbeatInterval = min(f.Kafka.SessionTimeout/30, time.Second)
		l.origins["kafka.heartbeat_interval"] = origin{from: fromDerived, why: "a thirtieth of kafka.session_timeout, at most 1s"}
	}
	f.derived = append(f.derived, Value{
		Path: "epoch.transaction_timeout", Value: formatDuration(f.TransactionTimeout()), From: fromDerived.String(),
		Why: fromDerived.String() + ": " + f.timeoutArithmetic() + ", at least " + formatDuration(leastTransaction),
	})
}

// checkKafka lets the broker package judge its own settings.
func (l *loader) checkKafka(f *File) {
	if !l.clean("kafka", "pipeline") {
		return
	}
	for _, p := range problems(f.Broker().Validate()) {
		code := codeKafka
		if p.Code == broker.CodeName {
			code = codeName
		}
		l.fail(code, l.at(p.Place), p.Place, problemCause(p), p.Remedy)
	}
	k := f.Kafka
	if k.TLS.Enabled && k.TLS.InsecureSkipVerify {
		l.warn(codeInsecure, l.at("kafka.tls.insecure_skip_verify"), "kafka.tls.insecure_skip_verify",
			"certificates of brokers are not checked", "give their authority in kafka.tls.ca_file instead")
	}
	if k.SASL.Enabled() && !k.TLS.Enabled && !strings.HasPrefix(k.SASL.Mechanism, "SCRAM") {
		l.warn(codeInsecure, l.at("kafka.sasl.mechanism"), "kafka.sasl.mechanism",
			k.SASL.Mechanism+" without TLS sends the credentials in the clear", "set kafka.tls.enabled: true")
	}
	if k.SessionTimeout < 6*time.Second && l.given("kafka.session_timeout") {
		l.warn(codeKafka, l.at("kafka.session_timeout"), "kafka.session_timeout",
			"brokers refuse less than 6s unless their group.min.session.timeout.ms is lower", "lower it on the brokers, or give 6s")
	}
}

// problems takes a joined error apart.
func problems(err error) []*broker.Problem {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*broker.Problem
		for _, e := range many.Unwrap() {
			out = append(out, problems(e)...)
		}
		return out
	}
	var p *broker.Problem
	if errors.As(err, &p) {
		return []*broker.Problem{p}
	}
	return []*broker.Problem{{Place: "kafka", Cause: err.Error()}}
}

func problemCause(p *broker.Problem) string {
	if p.Err != nil {
		return p.Cause + ": " + p.Err.Error()
	}
	return p.Cause
}

// Broker gives the settings below kafka as the broker package takes them.
func (f *File) Broker() broker.Config {
	k := f.Kafka
	c := broker.Config{
		Brokers: k.Brokers, Prefix: k.Prefix, Pipeline: f.Pipeline,
		Replication: k.Replication, CreateTopics: k.CreateTopics,
		TLS: broker.TLS(k.TLS),
		SASL: broker.SASL{
			Mechanism: k.SASL.Mechanism, Username: k.SASL.Username, Password: k.SASL.Password,
			PasswordFile: k.SASL.PasswordFile, Token: k.SASL.Token, TokenFile: k.SASL.TokenFile,
		},
		SessionTimeout: k.SessionTimeout, HeartbeatInterval: k.HeartbeatInterval,
	}
	if o := k.SASL.OAuth; o != nil {
		c.SASL.OAuth = broker.OAuth{
			TokenURL: o.TokenURL, ClientID: o.ClientID, ClientSecret: o.ClientSecret,
			ClientSecretFile: o.ClientSecretFile, Scope: o.Scope,
		}
	}
	return c
}

func (l *loader) checkStart(f *File) {
	if !l.clean("source.start") {
		return
	}
	s, err := broker.ParseStart(f.Source.Start)
	if err != nil {
		remedy := "write earliest, latest, a time as in 2026-01-31T00:00:00Z, or group:NAME"
		if near := nearest(f.Source.Start, []string{"earliest", "latest"}); near != "" {
			remedy = "did you mean " + near + "? Else a time as in 2026-01-31T00:00:00Z, or group:NAME"
		}
		l.fail(codeStart, l.at("source.start"), "source.start", quote(f.Source.Start)+" is no start position", remedy)
		return
	}
	if l.clean("pipeline", "kafka.prefix") && s.Group != "" && s.Group == f.Broker().Names(1).Group() {
		l.fail(codeStart, l.at("source.start"), "source.start", s.Group+" is the pipeline's own group",
			"name the group of the application whose place the pipeline takes; a pipeline finds its own offsets by itself")
	}
}

const (
	leastTransaction = 10 * time.Second
	mostTransaction  = 15 * time.Minute // transaction.max.timeout.ms unless changed
)

// TransactionTimeout is the time-out of the Kafka transactions: two epochs are
// open at once, and the second also waits for the decision of the first.
func (f *File) TransactionTimeout() time.Duration {
	return max(2*(f.Epoch.Interval+f.Epoch.MinPause)+f.Epoch.Timeout, leastTransaction)
}

func (f *File) timeoutArithmetic() string {
	return "2 x (epoch.interval " + formatDuration(f.Epoch.Interval) + " + epoch.min_pause " + formatDuration(f.Epoch.MinPause) +
		") + epoch.timeout " + formatDuration(f.Epoch.Timeout)
}

func (l *loader) checkEpoch(f *File) {
	if !l.clean("epoch") {
		return
	}
	e := f.Epoch
	switch {
	case e.Timeout <= e.Interval+e.MinPause:
		l.fail(codeEpoch, l.at("epoch.timeout"), "epoch.timeout",
			formatDuration(e.Timeout)+" is not longer than interval + min_pause, "+formatDuration(e.Interval+e.MinPause),
			"every epoch would run out of time: raise epoch.timeout or lower the others")
	case f.TransactionTimeout() > mostTransaction:
		l.fail(codeEpoch, l.at("epoch"), "epoch", "the transaction time-out would be "+formatDuration(f.TransactionTimeout())+
			": "+f.timeoutArithmetic(), "brokers refuse more than "+formatDuration(mostTransaction)+" (transaction.max.timeout.ms): lower one of them")
	}
	if r := f.Restart; l.clean("restart") && r.MaxDelay < r.Delay {
		l.fail(codeRange, l.at("restart.max_delay"), "restart.max_delay", formatDuration(r.MaxDelay)+" is below restart.delay, "+formatDuration(r.Delay),
			"raise it, or lower restart.delay")
	}
	if l.clean("memory") && f.Memory.Epoch < e.MaxBytes {
		l.fail(codeMemory, l.at("memory.epoch"), "memory.epoch", formatSize(f.Memory.Epoch)+" is below epoch.max_bytes, "+formatSize(e.MaxBytes),
			"raise it (twice epoch.max_bytes is right, since two epochs are open at once), or lower epoch.max_bytes")
	}
}

func (l *loader) checkListen(f *File) {
	h := f.HTTP
	if !l.clean("http") || h.Listen == "" {
		return
	}
	host, port, err := net.SplitHostPort(h.Listen)
	if err != nil || !validPort(port) {
		l.fail(codeListen, l.at("http.listen"), "http.listen", quote(h.Listen)+" is not host:port", "for example 127.0.0.1:9464; port 0 takes any free one")
		return
	}
	if addr, err := netip.ParseAddr(host); host == "localhost" || err == nil && addr.IsLoopback() || h.Token != "" || h.TokenFile != "" {
		return
	}
	l.fail(codeListen, l.at("http.listen"), "http.listen", quote(h.Listen)+" can be reached from other machines, and there is no token",
		"give http.token or http.token_file, or listen at 127.0.0.1")
}

func validPort(s string) bool {
	n, err := net.LookupPort("tcp", s)
	return err == nil && n >= 0 && s != ""
}

// checkSettings asks each sink's settings whether they fit together.
func (l *loader) checkSettings(f *File) {
	for _, s := range f.Sinks {
		v, ok := s.Settings.(interface{ Validate() error })
		if !ok || !l.clean("sinks."+s.Name) {
			continue
		}
		if err := v.Validate(); err != nil {
			l.errs = append(l.errs, f.SinkError(s.Name, err))
		}
	}
}
