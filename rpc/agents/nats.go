package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"heartbeat-mcpl/projection"
)

// The names of the mesh in NATS.
const (
	presenceBucket = "heartbeat_presence"
	inboxStream    = "HEARTBEAT_MESH"
	inboxSubject   = "heartbeat.mesh.inbox."
)

const (
	natsLimit    = 5 * time.Second    // how long a call may take
	natsRetry    = time.Second        // between two attempts to reach a server that is away
	presenceLife = 25 * time.Hour     // of an entry in the bucket: longer than any agent may be silent
	letterLife   = 7 * 24 * time.Hour // of a message that nobody fetches
	redeliver    = 20 * time.Second   // a message that was handed out and not acknowledged comes again, so that a crash loses none
	mostLetter   = 128 << 10          // bytes of a message on the wire, where JSON may make six of one
)

// NATS is the mesh of many machines: presence in a key-value bucket with a TTL, inboxes as durable consumers of a stream.
type NATS struct {
	log *slog.Logger
	url string // without credentials, for messages

	tried  chan struct{} // closed when the first attempt to connect has ended; what is below is there then
	nc     *nats.Conn    // nil: broken
	js     jetstream.JetStream
	broken error // no attempt can ever succeed

	ready   atomic.Bool // the bucket and the stream are there
	mu      sync.Mutex
	bucket  jetstream.KeyValue
	agent   string            // that is followed
	letters map[string]handed // its, by id
}

// handed is a message that was handed out and waits for its acknowledgement.
type handed struct {
	letter projection.Letter
	msg    jetstream.Msg
}

// NewNATS begins to connect to a server, or to one of several whose addresses are separated by commas. They may be away: nothing is
// waited for. Credentials and TLS come in the URL or, as the NATS tools read them, in NATS_CREDS, NATS_USER, NATS_PASSWORD,
// NATS_TOKEN, NATS_CA, NATS_CERT and NATS_KEY.
func NewNATS(server string, log *slog.Logger) (*NATS, error) {
	servers, err := parseNATS(server)
	if err != nil {
		return nil, err
	}
	n := &NATS{log: log, url: redact(servers), tried: make(chan struct{}), letters: map[string]handed{}}
	options := nats.GetDefaultOptions()
	for _, u := range servers {
		options.Servers = append(options.Servers, u.String())
	}
	for _, set := range append(credentials(), nats.Name("heartbeat-mcpl"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(natsRetry), nats.Timeout(natsLimit),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // there is none when this process closes the connection
				log.Warn("the mesh at "+n.url+" is away", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("the mesh at " + n.url + " is back") })) {
		if err := set(&options); err != nil {
			return nil, fmt.Errorf("connect to the mesh at %s: %w", n.url, err)
		}
	}
	go n.connect(options)
	return n, nil
}

// connect ends with the first attempt, which an address that takes connections and says nothing makes long; the library tries again.
func (n *NATS) connect(options nats.Options) {
	nc, err := options.Connect()
	if err == nil {
		n.nc = nc
		n.js, err = jetstream.New(nc)
	}
	if err != nil {
		n.broken = fmt.Errorf("connect to the mesh at %s: %w", n.url, err)
		n.log.Warn(n.broken.Error())
	} else if !nc.IsConnected() {
		n.log.Warn("the mesh at " + n.url + " is away; it is tried again every second")
	}
	close(n.tried)
}

// CheckNATS says what is wrong with a server's address, or with one of several that are separated by commas; it tries none.
func CheckNATS(server string) error {
	_, err := parseNATS(server)
	return err
}

// parseNATS takes addresses apart where the NATS tools do. As there, the scheme may be left out after the first.
func parseNATS(server string) ([]*url.URL, error) {
	var servers []*url.URL
	for _, address := range strings.Split(server, ",") {
		address = strings.TrimSpace(address)
		if address == "" {
			continue
		}
		if len(servers) > 0 && !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return nil, noNATS(server)
		}
		servers = append(servers, u)
	}
	if len(servers) == 0 {
		return nil, noNATS(server)
	}
	return servers, nil
}

// noNATS quotes what cannot be parsed, but nothing of it that may be a password.
func noNATS(server string) error {
	if at := strings.LastIndexByte(server, '@'); at >= 0 {
		server = "..." + server[at:]
	}
	return fmt.Errorf("HEARTBEAT_MESH_URL %q is no NATS address: give nats://HOST:PORT or tls://HOST:PORT, several with commas between", server)
}

// redact gives addresses without credentials.
func redact(servers []*url.URL) string {
	shown := make([]string, len(servers))
	for i, u := range servers {
		without := *u
		without.User = nil
		shown[i] = without.String()
	}
	return strings.Join(shown, ",")
}

func credentials() []nats.Option {
	var options []nats.Option
	env := os.Getenv
	if file := env("NATS_CREDS"); file != "" {
		options = append(options, nats.UserCredentials(file))
	}
	if user := env("NATS_USER"); user != "" {
		options = append(options, nats.UserInfo(user, env("NATS_PASSWORD")))
	}
	if token := env("NATS_TOKEN"); token != "" {
		options = append(options, nats.Token(token))
	}
	if ca := env("NATS_CA"); ca != "" {
		options = append(options, nats.RootCAs(ca))
	}
	if cert := env("NATS_CERT"); cert != "" {
		options = append(options, nats.ClientCert(cert, env("NATS_KEY")))
	}
	return options
}

// token is an agent's name where neither a subject's token nor a consumer's name may hold a dot.
func token(agent string) string { return strings.ReplaceAll(agent, ".", "=2E") }

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), natsLimit)
}

// reach makes sure that the server is there and that the bucket and the stream are.
func (n *NATS) reach(ctx context.Context) (jetstream.KeyValue, error) {
	select {
	case <-n.tried:
	case <-ctx.Done():
	}
	if err := n.connected(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready.Load() {
		return n.bucket, nil
	}
	bucket, err := n.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: presenceBucket, Description: "Agents that are here", TTL: presenceLife, History: 1,
	})
	if err != nil {
		return nil, n.failed(err)
	}
	_, err = n.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: inboxStream, Description: "Messages between agents", Subjects: []string{inboxSubject + "*"}, MaxAge: letterLife,
		MaxMsgSize: mostLetter, Duplicates: 2 * time.Minute,
	})
	if err != nil {
		return nil, n.failed(err)
	}
	n.bucket = bucket
	n.ready.Store(true)
	return bucket, nil
}

// connected is nil while the server can be asked.
func (n *NATS) connected() error {
	select {
	case <-n.tried:
	default:
		return n.away()
	}
	if n.broken != nil {
		return n.broken
	}
	if !n.nc.IsConnected() {
		return n.away()
	}
	return nil
}

func (n *NATS) away() error { return fmt.Errorf("NATS at %s is away", n.url) }

// failed is an error of the server's. It may have come back without its data: the next call makes sure again.
func (n *NATS) failed(err error) error {
	n.ready.Store(false)
	return fmt.Errorf("NATS at %s: %w", n.url, err)
}

// entry is an agent in the bucket.
func (n *NATS) entry(ctx context.Context, bucket jetstream.KeyValue, agent string) (projection.Agent, bool, error) {
	e, err := bucket.Get(ctx, token(agent))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return projection.Agent{}, false, nil
	}
	if err != nil {
		return projection.Agent{}, false, n.failed(err)
	}
	var a projection.Agent
	if err := json.Unmarshal(e.Value(), &a); err != nil {
		return a, false, nil // another program's, or a newer form: the agent begins anew
	}
	return a, !a.Stale(time.Now().UnixMilli()), nil
}

func (n *NATS) put(ctx context.Context, bucket jetstream.KeyValue, a projection.Agent) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if _, err := bucket.Put(ctx, token(a.ID), data); err != nil {
		return n.failed(err)
	}
	return nil
}

// CheckIn is [Mesh.CheckIn].
func (n *NATS) CheckIn(a projection.Agent) (projection.Agent, error) {
	ctx, cancel := within()
	defer cancel()
	bucket, err := n.reach(ctx)
	if err != nil {
		return a, err
	}
	old, here, err := n.entry(ctx, bucket, a.ID)
	if err != nil {
		return a, err
	}
	now := time.Now().UnixMilli()
	a.SinceMs, a.StatusMs, a.LastMs = now, now, now
	if here {
		a.SinceMs = old.SinceMs
		if old.Status == a.Status {
			a.StatusMs = old.StatusMs
		}
	}
	if err := n.inbox(ctx, a.ID, here); err != nil {
		return a, err
	}
	return a, n.put(ctx, bucket, a)
}

// inbox makes the agent's consumer: a new one, which gets what is sent from now on, unless the agent is here already.
func (n *NATS) inbox(ctx context.Context, agent string, here bool) error {
	if !here {
		err := n.js.DeleteConsumer(ctx, inboxStream, token(agent))
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return n.failed(err)
		}
		n.mu.Lock()
		clear(n.letters)
		n.mu.Unlock()
	}
	_, err := n.js.CreateOrUpdateConsumer(ctx, inboxStream, jetstream.ConsumerConfig{
		Durable: token(agent), FilterSubject: inboxSubject + token(agent), DeliverPolicy: jetstream.DeliverNewPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: redeliver, MaxAckPending: projection.MostInbox, InactiveThreshold: letterLife,
	})
	if err != nil {
		return n.failed(err)
	}
	return nil
}

// Serve is [Mesh.Serve]. Nothing is said: no process of another machine can be watched, and presence ends by its TTL.
func (n *NATS) Serve(string) (end func()) { return func() {} }

// Ended is [Mesh.Ended]: nobody knows.
func (n *NATS) Ended(string) (ended bool, atMs int64) { return false, 0 }

// Touch is [Mesh.Touch].
func (n *NATS) Touch(agent string) error {
	ctx, cancel := within()
	defer cancel()
	bucket, err := n.reach(ctx)
	if err != nil {
		return err
	}
	a, here, err := n.entry(ctx, bucket, agent)
	if err != nil {
		return err
	}
	if !here {
		return errStale(agent)
	}
	a.LastMs = time.Now().UnixMilli()
	return n.put(ctx, bucket, a)
}

// Agents is [Mesh.Agents].
func (n *NATS) Agents() ([]projection.Agent, error) {
	ctx, cancel := within()
	defer cancel()
	bucket, err := n.reach(ctx)
	if err != nil {
		return nil, err
	}
	watch, err := bucket.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, n.failed(err)
	}
	defer watch.Stop()
	all, now := []projection.Agent{}, time.Now().UnixMilli()
	for {
		select {
		case <-ctx.Done():
			return nil, n.failed(ctx.Err())
		case e := <-watch.Updates():
			if e == nil { // those that are there were all told
				slices.SortFunc(all, func(a, b projection.Agent) int { return strings.Compare(a.ID, b.ID) })
				return all, nil
			}
			var a projection.Agent
			if json.Unmarshal(e.Value(), &a) == nil && !a.Stale(now) {
				all = append(all, a)
			}
		}
	}
}

// Send is [Mesh.Send].
func (n *NATS) Send(l projection.Letter, to []string) error {
	ctx, cancel := within()
	defer cancel()
	if _, err := n.reach(ctx); err != nil {
		return err
	}
	l.SentMs = time.Now().UnixMilli()
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	for _, name := range to {
		waiting, err := n.waiting(ctx, name)
		if err != nil {
			return err
		}
		if err := roomFor(name, waiting); err != nil {
			return err
		}
	}
	for _, name := range to {
		if _, err := n.js.Publish(ctx, inboxSubject+token(name), data, jetstream.WithMsgID(l.ID+"/"+name)); err != nil {
			return fmt.Errorf("%w: %w", errUnknown, n.failed(err))
		}
	}
	return nil
}

// Waiting is [Mesh.Waiting].
func (n *NATS) Waiting(agent string) (int, error) {
	ctx, cancel := within()
	defer cancel()
	if _, err := n.reach(ctx); err != nil {
		return 0, err
	}
	return n.waiting(ctx, agent)
}

func (n *NATS) waiting(ctx context.Context, agent string) (int, error) {
	consumer, err := n.js.Consumer(ctx, inboxStream, token(agent))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, errLeft(agent)
	}
	if err != nil {
		return 0, n.failed(err)
	}
	info := consumer.CachedInfo()
	return int(info.NumPending) + info.NumAckPending, nil
}

// Inbox is [Mesh.Inbox]: of the agent that is followed.
func (n *NATS) Inbox(string) ([]projection.Letter, error) {
	if err := n.connected(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	letters := []projection.Letter{}
	for _, h := range n.letters {
		letters = append(letters, h.letter)
	}
	slices.SortFunc(letters, func(a, b projection.Letter) int {
		if a.SentMs != b.SentMs {
			return int(a.SentMs - b.SentMs)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return letters, nil
}

// Acknowledge is [Mesh.Acknowledge].
func (n *NATS) Acknowledge(_ string, ids []string) (acknowledged []string, err error) {
	ctx, cancel := within()
	defer cancel()
	if _, err := n.reach(ctx); err != nil {
		return nil, err
	}
	for _, id := range ids {
		n.mu.Lock()
		h, there := n.letters[id]
		n.mu.Unlock()
		if !there {
			continue
		}
		if err := h.msg.DoubleAck(ctx); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			return acknowledged, n.failed(err)
		}
		n.mu.Lock()
		delete(n.letters, id)
		n.mu.Unlock()
		acknowledged = append(acknowledged, id)
	}
	return acknowledged, nil
}

// Follow is [Mesh.Follow].
func (n *NATS) Follow(agent string, stop <-chan struct{}, changed func()) {
	n.mu.Lock()
	if n.agent != agent { // what was handed out to another one is that one's
		n.agent = agent
		clear(n.letters)
	}
	n.mu.Unlock()
	for {
		consuming, err := n.consume(agent, changed)
		if err != nil {
			n.log.Debug("the inbox cannot be followed yet", "err", err)
			select {
			case <-stop:
				return
			case <-time.After(natsRetry):
			}
			continue
		}
		select {
		case <-stop:
			consuming.Stop()
			return
		case <-consuming.Closed(): // the consumer is gone, or the connection was given up: begin again
		}
	}
}

func (n *NATS) consume(agent string, changed func()) (jetstream.ConsumeContext, error) {
	ctx, cancel := within()
	defer cancel()
	if _, err := n.reach(ctx); err != nil {
		return nil, err
	}
	consumer, err := n.js.Consumer(ctx, inboxStream, token(agent))
	if err != nil {
		return nil, n.failed(err)
	}
	return consumer.Consume(func(msg jetstream.Msg) {
		var l projection.Letter
		if err := json.Unmarshal(msg.Data(), &l); err != nil || l.ID == "" {
			n.log.Warn("a message in the mesh that cannot be read is dropped", "err", err)
			_ = msg.Term() // it would come again and again
			return
		}
		n.mu.Lock()
		n.letters[l.ID] = handed{l, msg} // one that comes again is acknowledged under its newest delivery
		n.mu.Unlock()
		changed()
	}, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { n.log.Debug("the inbox", "err", err) }))
}

// Close is [Mesh.Close].
func (n *NATS) Close() error {
	end := func() {
		<-n.tried
		if n.nc != nil {
			n.nc.Close()
		}
	}
	select {
	case <-n.tried:
		end()
	default:
		go end() // the first attempt is not waited for
	}
	return nil
}
