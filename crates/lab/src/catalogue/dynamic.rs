//! 001, figures 6.12 and 6.13: four of five requests are for files, one is for what the server computes; beside
//! it what another process computes (FastCGI), and what comes out of a database.

use super::bed::{Bed, SERVER_CORE};
use super::each::Each;
use super::offered::{self, CONNECTIONS, LOAD};
use super::static_files::{self, SIZE, count, in_pieces};
use super::{Entry, Extent, Setup, postgresql};
use crate::experiment::declaration::{Axis, Bound};
use crate::experiment::left_out::LeftOut;
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::load::Asked;
use crate::nginx::Lines;
use crate::process::Process;
use crate::world::Side;
use anyhow::{Context, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "dynamic",
    source: "001",
    about: "80 % files, 20 % computed in the server, by FastCGI, from redis or PostgreSQL: throughput and CPU by load",
    needs: &[
        "nginx",
        LUA[0],
        LUA[1],
        CLIENT,
        "redis-server",
        "redis-cli",
        "taskset",
    ],
    seconds: (10, 1),
    windows: 1,
    declare,
    open,
};

const PART: &str = "dynamic part";
/// What the levels are called, and the places that nginx serves them at.
const PARTS: [(&str, &str); 4] = [
    (COMPUTED, "/computed"),
    ("by FastCGI", "/fastcgi"),
    ("from redis", "/redis"),
    (DATABASE, AT_DATABASE),
];
const COMPUTED: &str = "computed in the server";
/// It takes its seconds to be filled, and is in full runs.
const DATABASE: &str = "from PostgreSQL";
const AT_DATABASE: &str = "/postgresql";
/// The share of requests that are not for files.
pub(super) const SHARE: f64 = 0.2;
/// Requests that are drawn for each file before they begin again.
const DRAWN: usize = 4;
/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Modules that Debian's nginx has in files of their own, and a client of redis for them.
const LUA: [&str; 2] = [
    "/usr/lib/nginx/modules/ndk_http_module.so",
    "/usr/lib/nginx/modules/ngx_http_lua_module.so",
];
const CLIENT: &str = "/usr/share/lua/5.1/nginx/redis.lua";

fn declare(extent: Extent) -> Experiment {
    let is_meant = |name: &str| name != DATABASE || extent == Extent::Full;
    let missing = postgresql::missing().filter(|_| is_meant(DATABASE));
    let left_out = missing.map(|why| LeftOut {
        axis: PART.into(),
        name: DATABASE.into(),
        why,
    });
    let left_out: Vec<LeftOut> = left_out.into_iter().collect();
    let mut parts: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    parts.retain(|name| is_meant(name) && left_out.iter().all(|left| left.name != *name));
    let mut pictures = Vec::new();
    for name in &parts {
        let what = format!("80:20, {name}");
        pictures.extend(offered::pictures(&what, ["6.12", "6.13"], &[(PART, name)]));
    }
    Experiment {
        name: ENTRY.name.into(),
        title: "Files and what is computed, by load".into(),
        question: "What does offloading gain where the server has something else to do? In 001 a full server \
            answered 11 % more by calls that wait for the engine, 18 % more by calls that do not, with one \
            request in five for bytes that it draws at random."
            .into(),
        workload: format!(
            "GET by HTTP/1.0, due at a fixed rate, a connection for each, at most {CONNECTIONS} at once. Four of \
             five are for one of {}, in sends of 16 KB; one is for as many bytes that \
             are computed by a random number for each, as WebStone 2 has it: inside of nginx (in Lua, compiled as \
             it runs), or by a process behind it (FastCGI over a local socket); or that redis has, or a row of a \
             table that PostgreSQL has, which nginx itself asks for them over local sockets. Processes behind nginx \
             are on the kernel; their time is the server's.",
            static_files::words()
        ),
        roles: format!("{}; what is behind nginx has its core, too", offered::roles(extent)),
        axes: vec![
            offered::loads(extent),
            Axis::of_words(PART, &parts),
        ],
        subjects: offered::of_nginx(extent),
        measures: offered::measures(),
        pictures,
        findings: Vec::new(),
        claims: offered::as_in_the_source(extent, vec![offered::claim(
            "A full server that computes a fifth answers 11 % more",
            "6.12",
            &[(PART, COMPUTED)],
            Bound::AtLeast(1.11),
        )]),
        left_out,
        model: None,
    }
}

/// A stack with nginx, and what is behind that.
struct Whole {
    behind: Vec<Process>,
    /// PostgreSQL, when it was wanted.
    database: Option<Process>,
    bed: Bed,
}

struct Dynamic(Each<Whole>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let each = Each::of(setup, |subject| whole(setup, subject));
    Ok(Box::new(Dynamic(each?)))
}

fn whole(setup: &Setup, subject: &str) -> Result<Whole> {
    let bed = Bed::of(setup, subject)?;
    let at = |name: &str| bed.world().scratch().join(name);
    let (store, responder) = (at("redis.sock"), at("fastcgi.sock"));
    let behind = vec![
        start_redis(&bed, &store)?,
        start_responder(setup, &bed, &responder)?,
    ];
    let asks_database = postgresql::function(bed.world());
    let bed = bed.serving(|site| {
        static_files::write(site)?;
        Ok(Lines {
            top: LUA
                .map(|module| format!("load_module {module};\n"))
                .concat(),
            http: http(&responder, &asks_database),
            server: in_pieces("/16K", site, 16) + &places(&store) + &postgresql::place(AT_DATABASE),
            ..Lines::default()
        })
    })?;
    Ok(Whole {
        behind,
        database: None,
        bed,
    })
}

/// A redis with what it is asked for, which keeps nothing.
fn start_redis(bed: &Bed, socket: &Path) -> Result<Process> {
    let world = bed.world();
    let mut redis = world
        .program(Side::Server, "redis-server")
        .args([
            "--port",
            "0",
            "--save",
            "",
            "--unixsocketperm",
            "777",
            "--unixsocket",
        ])
        .arg(socket)
        .arg("--dir")
        .arg(world.scratch())
        .on_core(SERVER_CORE)
        .log(world.scratch().join("redis.log"))
        .start()?;
    let value: String = (0..SIZE)
        .map(|at| char::from(b'a' + (at % 26) as u8))
        .collect();
    let set = world.program(Side::Server, "redis-cli");
    let set = set.arg("-s").arg(socket).args(["set", "x", &value]);
    redis.wait_until(LIMIT, || set.output().is_ok_and(|said| said.trim() == "OK"))?;
    Ok(redis)
}

/// A process that computes, behind FastCGI.
fn start_responder(setup: &Setup, bed: &Bed, socket: &Path) -> Result<Process> {
    let world = bed.world();
    let mut responder = world
        .program(Side::Server, &setup.binary)
        .args(["subject", "fast-cgi", "--size", &SIZE.to_string(), "--at"])
        .arg(socket)
        .on_core(SERVER_CORE)
        .log(world.scratch().join("fastcgi.log"))
        .start()?;
    responder.wait_until(LIMIT, || socket.exists())?;
    Ok(responder)
}

/// What computes, a further function, and connections that stay.
fn http(responder: &Path, further: &str) -> String {
    format!(
        "    lua_package_path \"/usr/share/lua/5.1/?.lua;;\";
    init_by_lua_block {{
        local ffi = require \"ffi\"
        local size, random = {SIZE}, math.random
        local bytes = ffi.new(\"uint8_t[?]\", size)
        function computed()
            for at = 0, size - 1 do bytes[at] = random(0, 255) end
            return ffi.string(bytes, size)
        end{further}    }}
    upstream responder {{ server unix:{}; keepalive 64; }}
",
        responder.display()
    )
}

fn places(store: &Path) -> String {
    format!(
        "        location = /computed {{ content_by_lua_block {{
            ngx.header.content_length = {SIZE}
            ngx.print(computed())
        }} }}
        location = /redis {{ content_by_lua_block {{
            local store = require(\"nginx.redis\"):new()
            local there, why = store:connect(\"unix:{store}\")
            local value = there and store:get(\"x\")
            if not value or value == ngx.null then ngx.exit(502) end
            store:set_keepalive(60000, 64)
            ngx.header.content_length = #value
            ngx.print(value)
        }} }}
        location = /fastcgi {{
            fastcgi_pass responder;
            fastcgi_keep_conn on;
            fastcgi_buffers 8 32k;
            fastcgi_param REQUEST_METHOD $request_method;
        }}
",
        store = store.display()
    )
}

impl Bench for Dynamic {
    fn prepare(&mut self, at: &At<'_>) -> Result<()> {
        let whole = self.0.get_mut(at.subject)?;
        if at.word(PART)? == DATABASE && whole.database.is_none() {
            let world = whole.bed.world();
            whole.database = Some(postgresql::start(world, SIZE as usize)?);
        }
        Ok(())
    }

    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let name = at.word(PART)?;
        let known = PARTS.iter().find(|(known, _)| *known == name);
        let (_, path) = known.with_context(|| format!("no {name}"))?;
        let whole = self.0.get(at.subject)?;
        // From when it is first wanted on it is there, in some of what else is measured, and does nothing for that.
        let database = whole.database.iter().filter(|_| name == DATABASE);
        let behind = whole.behind.iter().chain(database);
        let servers: Vec<u32> = behind.map(Process::id).collect();
        let asked = asked(path, count(), at.seed);
        offered::measure_with(&whole.bed, &servers, &asked, at.number(LOAD)?, at.window)
    }
}

/// Any of so many files, or, one time in five, what is computed.
fn asked(path: &str, count: usize, seed: u64) -> Asked {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut one = || match random.random_bool(SHARE) {
        true => count,
        false => random.random_range(0..count),
    };
    let order = (0..DRAWN * count).map(|_| one() as u16).collect();
    let file = |number: usize| offered::get(&format!("/16K/{number}"));
    Asked {
        texts: (0..count).map(file).chain([offered::get(path)]).collect(),
        wanted: Vec::new(),
        order,
        limit: None,
        due: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{DATABASE, Extent, PART, asked, declare};

    #[test]
    fn a_database_is_in_full_runs_or_is_said_to_be_missing() {
        let levels = |extent| {
            let declared = declare(extent);
            let axis = declared.axis(PART).unwrap().levels.clone();
            let names: Vec<String> = axis.into_iter().map(|level| level.name).collect();
            (names.iter().any(|name| name == DATABASE), declared.left_out)
        };
        let (is_there, left_out) = levels(Extent::Full);
        assert_eq!(is_there, left_out.is_empty());
        assert_eq!(levels(Extent::Quick), (false, Vec::new()));
    }

    #[test]
    fn one_request_in_five_is_for_what_is_computed() {
        let count = 2_048;
        let mixed = asked("/computed", count, 1);
        let is_computed = |at: &&u16| usize::from(**at) == count;
        let computed = mixed.order.iter().filter(is_computed).count();
        let share = computed as f64 / mixed.order.len() as f64;
        // Three deviations of 8,192 draws.
        assert!((0.1867..0.2133).contains(&share), "{share}");
        assert!(mixed.texts[count].starts_with(b"GET /computed HTTP/1.0\r\n"));
        let mut files: Vec<u16> = mixed.order.clone();
        files.sort_unstable();
        files.dedup();
        // Of 6,550 draws from 2,048 files, all but e^-3.2 of them.
        assert!((1_930..2_000).contains(&files.len()), "{}", files.len());
        assert_eq!(mixed.order, asked("/redis", count, 1).order);
        assert_ne!(mixed.order, asked("/computed", count, 2).order);
    }
}
