//! Uploads: PUT to `outboard serve --uploads`, beside nginx's, each on the kernel and on the engine.

use super::super::bed::{Bed, ROLES, stack_of};
use super::super::each::Each;
use super::super::offered::is_serve;
use super::super::{Entry, Extent, Setup, wrk};
use crate::experiment::declaration::{Axis, Bound, Citation, Claim, Measure, Picture};
use crate::experiment::{At, Bench, Experiment, Sample};
use crate::nginx::{Lines, Nginx};
use anyhow::Result;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const ENTRY: Entry = Entry {
    name: "uploads",
    source: "001",
    about: "PUT of files to a server that knows of its engine beside nginx: uploads a second, CPU",
    needs: &["nginx", "wrk", "taskset"],
    seconds: (5, 1),
    windows: 1,
    declare,
    open,
};

const SIZE: &str = "file";
const RATE: &str = "uploads a second";
const SERVER: &str = "CPU of the server, an upload";
const ENGINE: &str = "CPU of the engine, an upload";
const MACHINE: &str = "CPU of the machine, an upload";
const SUBJECTS: [&str; 4] = [NGINX, "nginx on the engine", "serve on the kernel", SERVE];
const NGINX: &str = "nginx on the kernel";
const SERVE: &str = "serve on the engine";
const SIZES: [f64; 4] = [1_024.0, 16_384.0, 131_072.0, 1_048_576.0];
const CONNECTIONS: usize = 16;
/// Files that are put, again and again.
const FILES: usize = 64;

fn declare(extent: Extent) -> Experiment {
    let sizes = match extent {
        Extent::Full => &SIZES[..],
        Extent::Quick => &SIZES[1..2],
    };
    let picture = |title: &str, measure: &str| {
        let picture = Picture::new(title, SIZE, measure);
        picture.log_x().log_y()
    };
    Experiment {
        name: ENTRY.name.into(),
        title: "Uploads to a server that knows of its engine".into(),
        question: "What does eager receive bring a server that stores what its clients send? 001 names a site that \
            takes submissions as what its server could not show."
            .into(),
        workload: format!(
            "wrk, one thread, {CONNECTIONS} connections that stay, PUT by HTTP/1.1 of {FILES} files of one size, again \
             and again; each takes the place of the one before. outboard serve writes what has come from where the \
             engine has put it; nginx (its WebDAV module) stores a body in a file of its own and renames that. CPU is \
             that of whoever writes the files, too."
        ),
        roles: ROLES.into(),
        axes: vec![Axis::of_numbers(SIZE, "B", sizes)],
        subjects: SUBJECTS.map(String::from).to_vec(),
        measures: vec![
            Measure::new(RATE, "1/s"),
            Measure::new(SERVER, "µs"),
            Measure::new(ENGINE, "µs"),
            Measure::new(MACHINE, "µs"),
        ],
        pictures: vec![
            picture("Uploads a second", RATE),
            picture("CPU of the server, an upload", SERVER),
            picture("CPU of the machine, an upload", MACHINE),
        ],
        findings: Vec::new(),
        claims: vec![Claim {
            says: "An upload takes a server on the engine no more than one on the kernel".into(),
            citation: Citation::goal(),
            measure: SERVER.into(),
            subject: SERVE.into(),
            to: SUBJECTS[2].into(),
            at: Vec::new(),
            ratio: Bound::AtMost(1.0),
        }],
        left_out: Vec::new(),
        model: None,
    }
}

struct Uploads(Each<Bed>);

fn open(setup: &Setup) -> Result<Box<dyn Bench>> {
    let beds = Each::of(setup, |subject| {
        let bed = Bed::bare(setup, stack_of(subject))?;
        if !is_serve(subject) {
            return bed.serving(|site| Ok(places(&store(site)?)));
        }
        let uploads = store(bed.world().scratch())?;
        let options = ["--uploads", &uploads.to_string_lossy()];
        bed.serving_natively(setup, &options, |_| Ok(()))
    });
    Ok(Box::new(Uploads(beds?)))
}

/// A directory below `path` that whoever serves may write to.
fn store(path: &Path) -> Result<PathBuf> {
    let store = path.join("uploads");
    std::fs::create_dir_all(&store)?;
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o777))?;
    Ok(store)
}

/// What nginx is told: bodies go to the same file system, so that they are renamed and not copied.
fn places(store: &Path) -> Lines {
    let (root, store) = (store.parent().unwrap_or(store).display(), store.display());
    Lines {
        http: format!("    client_body_temp_path {store}/.bodies;\n"),
        server: format!(
            "        location /uploads/ {{ root {root}; dav_methods PUT; client_max_body_size 0; }}\n"
        ),
        ..Lines::default()
    }
}

/// What wrk puts: a body of one size, under one name after another. The requests are made before any is sent.
fn script(place: &str, size: &str) -> String {
    format!(
        "local requests, number = {{}}, 0
init = function()
  local body = string.rep(\"x\", {size})
  for at = 1, {FILES} do requests[at] = wrk.format(\"PUT\", \"{place}/\" .. at, nil, body) end
end
request = function()
  number = number % {FILES} + 1
  return requests[number]
end
"
    )
}

impl Bench for Uploads {
    fn measure(&mut self, at: &At<'_>) -> Result<Sample> {
        let bed = self.0.get(at.subject)?;
        let place = if is_serve(at.subject) { "" } else { "/uploads" };
        let file = bed.world().scratch().join("put.lua");
        std::fs::write(&file, script(place, at.word(SIZE)?))?;
        let further = ["-s".to_owned(), file.to_string_lossy().into_owned()];
        let url = format!("http://{}/", Nginx::address());
        let putting = || wrk::run_told(bed, &url, CONNECTIONS, &further, at.window);
        let (rate, cost) = bed.account(putting)?;
        let uploads = rate * at.window.as_secs_f64();
        let each = |time: Duration| 1e6 * time.as_secs_f64() / uploads;
        let mut sample = cost
            .sample(at.window)
            .with(RATE, rate)
            .with(SERVER, each(cost.server()))
            .with(MACHINE, each(cost.machine()));
        if cost.spent.engine.is_some() {
            sample = sample.with(ENGINE, each(cost.engine()));
        }
        Ok(sample)
    }
}
