//! What `make install` puts where, that it works there, and that nothing stays when it is removed. The
//! programs are those that the tests are made of; only what they are wrapped in is tried.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of this test's own, removed at its end.
struct Root(PathBuf);

impl Root {
    fn new(test: &str) -> Self {
        let name = format!("outboard-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// The files in it, by their paths.
    fn files(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        let mut directories = vec![self.0.clone()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let path = path.strip_prefix(&self.0).expect("below the root");
                    files.insert(path.display().to_string());
                }
            }
        }
        files
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = text(&output);
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Where the programs of this test are, if all of them were built.
fn built(test: &str) -> Option<&'static Path> {
    lab::built_beside(test, env!("CARGO_BIN_EXE_outboard"))
}

/// `make`, as a packager calls it.
fn make(target: &str, built: &Path, variables: &[(&str, &Path)]) -> Command {
    let mut make = Command::new("make");
    make.current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["-s", target]);
    make.arg(format!("BUILT={}", built.display()));
    for (name, value) in variables {
        make.arg(format!("{name}={}", value.display()));
    }
    // Tests run at the same time.
    static MADE: AtomicU32 = AtomicU32::new(0);
    let own = MADE.fetch_add(1, Ordering::Relaxed);
    make.arg(format!(
        "generated={}/generated-{}-{own}",
        built.display(),
        std::process::id()
    ));
    make
}

fn is_there(program: &str) -> bool {
    !lab::skip_without(program, &[program])
}

#[test]
fn everything_is_in_its_place_and_works_there() {
    let Some(built) = built("everything_is_in_its_place_and_works_there") else {
        return;
    };
    let root = Root::new("install");
    let destdir: &[(&str, &Path)] = &[("DESTDIR", &root.0), ("PREFIX", Path::new("/usr"))];
    run(&mut make("install-files", built, destdir));
    let files = root.files();
    for file in [
        "usr/bin/outboard",
        "usr/lib/outboard/liboutboard_preload.so",
        "usr/include/outboard.h",
        "usr/include/tcps.h",
        "usr/lib/liboutboard.a",
        "usr/lib/liboutboard.so",
        "usr/lib/liboutboard.so.0",
        "usr/lib/pkgconfig/outboard.pc",
        "usr/lib/systemd/system/outboard@.service",
        "usr/lib/sysusers.d/outboard.conf",
        "usr/lib/tmpfiles.d/outboard.conf",
        "usr/share/man/man1/outboard.1",
        "usr/share/man/man1/outboard-engine.1",
        "usr/share/man/man1/outboard-service-enable.1",
        "usr/share/man/man3/ob_send.3",
        "usr/share/man/man3/tcps_send.3",
        "usr/share/bash-completion/completions/outboard",
        "usr/share/zsh/vendor-completions/_outboard",
        "usr/share/fish/vendor_completions.d/outboard.fish",
        "usr/share/doc/outboard/LICENSE-MIT",
        "usr/share/doc/outboard/examples/engine.toml",
    ] {
        assert!(files.contains(file), "{file} is missing in {files:?}");
    }
    // Installed again over itself, as an upgrade does.
    run(&mut make("install-files", built, destdir));
    assert_eq!(root.files(), files);

    // The library is found where it was installed, and nowhere else.
    let outboard = root.path("usr/bin/outboard");
    let mut env = Command::new(&outboard);
    env.args(["run", "--", "env"])
        .env_remove("OUTBOARD_PRELOAD")
        .env("OUTBOARD_SOCKET", "/nonexistent/engine.sock");
    let library = root.path("usr/lib/outboard/liboutboard_preload.so");
    let said = run(&mut env);
    assert!(
        said.contains(&format!("LD_PRELOAD={}", library.display())),
        "{said}"
    );
    std::fs::remove_file(&library).expect("it is there");
    let output = env.output().expect("it runs");
    assert!(
        !output.status.success() && text(&output).contains("lib/outboard"),
        "{output:?}"
    );

    // A program is linked with the shared library, and finds every name in its version.
    let program = root.path("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/capi/tests/conformance.c");
    let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
    let link = |compiler: &str, standard: &str, source: &Path| {
        run(Command::new(compiler)
            .arg(standard)
            .args(strict)
            .arg("-I")
            .arg(root.path("usr/include"))
            .arg(source)
            .arg("-L")
            .arg(root.path("usr/lib"))
            .args(["-loutboard", "-lpthread", "-o"])
            .arg(&program));
    };
    if is_there("c++") {
        // Both headers, and a call of either, which says the version that the header says.
        let uses = "#include <outboard.h>\n#include <tcps.h>\nint main() {\n    \
            unsigned here = OB_VERSION_MAJOR * 1000 + OB_VERSION_MINOR;\n    \
            return tcps_close(-1) == -1 && ob_version() == here ? 0 : 1;\n}\n";
        let source = root.write("uses.cpp", uses);
        link("c++", "-std=c++17", &source);
        run(Command::new(&program).env("LD_LIBRARY_PATH", root.path("usr/lib")));
        std::fs::remove_file(source).expect("it is there");
    }
    link("cc", "-std=c99", &source);
    let used = run(Command::new("readelf")
        .arg("-W")
        .arg("--dyn-syms")
        .arg(&program));
    assert!(used.contains("ob_attach@OUTBOARD_0.1"), "{used}");
    // As pkg-config says, which is all that a program's makefile knows, also of what a static one needs.
    if is_there("pkg-config") {
        let ask = |what: &[&str]| {
            let mut asked = Command::new("pkg-config");
            asked.args(what).arg("outboard");
            for (name, place) in [("prefix", "usr"), ("libdir", "usr/lib")] {
                let place = root.path(place);
                asked.arg(format!("--define-variable={name}={}", place.display()));
            }
            asked.env("PKG_CONFIG_PATH", root.path("usr/lib/pkgconfig"));
            let words: Vec<String> = run(&mut asked)
                .split_whitespace()
                .map(str::to_owned)
                .collect();
            words
        };
        let compile = |flags: Vec<String>| {
            run(Command::new("cc")
                .arg("-std=c99")
                .arg(&source)
                .args(flags)
                .arg("-o")
                .arg(&program));
            run(Command::new("readelf").arg("-d").arg(&program))
        };
        let mut flags = ask(&["--cflags", "--libs"]);
        flags.push("-lpthread".to_owned());
        assert!(compile(flags).contains("liboutboard.so.0"));
        let flags = ask(&["--cflags", "--libs", "--static"]).into_iter();
        let of_archive = |flag: String| match flag.as_str() {
            "-loutboard" => "-l:liboutboard.a".to_owned(),
            _ => flag,
        };
        assert!(!compile(flags.map(of_archive).collect()).contains("liboutboard"));
    }
    let library = root.path("usr/lib/liboutboard.so.0");
    let given = run(Command::new("readelf")
        .args(["-W", "--dyn-syms"])
        .arg(&library));
    let others: Vec<&str> = given
        .lines()
        .filter(|line| line.contains(" GLOBAL ") && !line.contains(" UND "))
        .filter(|line| !line.contains(" ob_") && !line.contains(" OUTBOARD_0.1"))
        .collect();
    assert_eq!(
        others,
        Vec::<&str>::new(),
        "names of others' are given away"
    );
    std::fs::remove_file(&program).expect("it is there");

    run(&mut make("uninstall", built, destdir));
    assert_eq!(root.files(), BTreeSet::new(), "nothing is left");
}

#[test]
fn manual_pages_and_completions_are_of_all_commands_and_well_formed() {
    let root = Root::new("generated");
    let mut generate = Command::new(env!("CARGO_BIN_EXE_outboard"));
    run(generate.arg("generate").arg(&root.0));
    let help = run(Command::new(env!("CARGO_BIN_EXE_outboard")).arg("--help"));
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(
        commands.len() >= 13 && commands.contains(&"service"),
        "{help}"
    );
    assert!(!commands.contains(&"generate"), "it is for packagers");
    for command in &commands {
        let page = root.path(&format!("man1/outboard-{command}.1"));
        assert!(page.is_file(), "{command} has no page");
    }
    assert!(!root.path("man1/outboard-generate.1").exists());
    // Of the interface for programs, each function that the header declares.
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/capi/include");
    let header = std::fs::read_to_string(include.join("outboard.h")).expect("the header");
    let code = header
        .split("*/")
        .filter_map(|piece| piece.split("/*").next());
    let words =
        code.flat_map(|piece| piece.split(|c: char| !c.is_alphanumeric() && !"_(".contains(c)));
    let mut functions: BTreeSet<&str> = words
        .filter_map(|word| word.split_once('(').map(|(name, _)| name))
        .filter(|name| name.starts_with("ob_"))
        .collect();
    assert!(
        functions.len() > 35 && functions.contains("ob_send_file"),
        "{functions:?}"
    );
    // And of the one with the paper's names those that are not its own.
    let paper = std::fs::read_to_string(include.join("tcps.h")).expect("the header");
    let of_paper = paper.split("\nTCPS_WEAK ").skip(1);
    let of_paper = of_paper.filter_map(|item| item.split_once('(')?.0.rsplit([' ', '*']).next());
    functions.extend(of_paper.filter(|name| name.starts_with("tcps_") && !name.ends_with('_')));
    assert!(functions.contains("tcps_io_wait"), "{functions:?}");
    for function in &functions {
        let page = root.path(&format!("man3/{function}.3"));
        let page =
            std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("{function} has no page"));
        let declared = page
            .lines()
            .any(|line| line.contains(&format!("{function}(")));
        assert!(
            declared && page.contains(".SH DESCRIPTION\n.PP\n"),
            "{page}"
        );
    }
    let of_calls = root
        .files()
        .iter()
        .filter(|file| file.starts_with("man3/"))
        .count();
    assert_eq!(of_calls, functions.len() + 2, "and one of each header");
    if is_there("man") {
        let is_page = |file: &&String| {
            [".1", ".3", ".5"]
                .iter()
                .any(|section| file.ends_with(section))
        };
        for page in root.files().iter().filter(is_page) {
            let mut man = Command::new("man");
            man.args(["--warnings", "-E", "UTF-8", "-l"])
                .arg(root.path(page));
            let output = man.env("MANWIDTH", "80").output().expect("man");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{page}: {said}");
        }
    }
    for (shell, file) in [
        ("bash", "bash/outboard.bash"),
        ("zsh", "zsh/_outboard"),
        ("fish", "fish/outboard.fish"),
    ] {
        if is_there(shell) {
            run(Command::new(shell).arg("-n").arg(root.path(file)));
        }
        let text = std::fs::read_to_string(root.path(file)).expect("a file");
        for command in &commands {
            assert!(text.contains(command), "{file} knows no {command}");
        }
    }
}

#[test]
fn the_unit_is_one_that_systemd_takes_and_is_confined() {
    let Some(built) = built("the_unit_is_one_that_systemd_takes_and_is_confined") else {
        return;
    };
    if !is_there("systemd-analyze") {
        return;
    }
    let root = Root::new("unit");
    run(&mut make("install-files", built, &[("PREFIX", &root.0)]));
    let unit = root.path("lib/systemd/system/outboard@.service");
    let mut verify = Command::new("systemd-analyze");
    verify
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(&unit);
    let said = run(&mut verify);
    assert!(!said.contains("outboard@"), "{said}");
    // 0 is as confined as can be, 10 not at all; 3 is what systemd calls OK for a service that has
    // the network for its work.
    let mut security = Command::new("systemd-analyze");
    security
        .args(["security", "--offline=true", "--threshold=30"])
        .arg(&unit);
    run(&mut security);
    for (tool, file) in [
        ("systemd-sysusers", "lib/sysusers.d/outboard.conf"),
        ("systemd-tmpfiles", "lib/tmpfiles.d/outboard.conf"),
    ] {
        if tool == "systemd-sysusers" && is_there(tool) {
            let own = Root::new("sysusers");
            std::fs::create_dir(own.path("etc")).expect("a directory");
            let root = format!("--root={}", own.0.display());
            run(Command::new(tool).arg(root).arg(root_file(&unit, file)));
            let users = std::fs::read_to_string(own.path("etc/passwd")).expect("users");
            assert!(
                users.contains("\noutboard:") || users.starts_with("outboard:"),
                "{users}"
            );
        }
    }
}

/// A file beside the unit's directory.
fn root_file(unit: &Path, file: &str) -> PathBuf {
    let prefix = unit.ancestors().nth(4).expect("lib/systemd/system/x");
    prefix.join(file)
}

/// A unit as Debian has it, and its program: something that can be interposed.
fn service(root: &Root, name: &str, more: &str) {
    let program = root.path("usr/sbin/server");
    std::fs::create_dir_all(program.parent().expect("a directory")).expect("a directory");
    if !program.exists() {
        std::fs::copy("/bin/sh", &program).expect("a program");
    }
    root.write(
        &format!("lib/systemd/system/{name}.service"),
        &format!("[Service]\nExecStart=/usr/sbin/server -g 'daemon on;'\n{more}"),
    );
}

fn outboard(root: &Root, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboard"));
    command
        .arg("service")
        .args(arguments)
        .arg("--root")
        .arg(&root.0);
    // Any file will do for a library that is only named.
    command.env("OUTBOARD_PRELOAD", env!("CARGO_BIN_EXE_outboard"));
    command.output().expect("it runs")
}

#[test]
fn a_service_is_put_on_the_engine_and_taken_off_again() {
    let root = Root::new("service");
    service(&root, "nginx", "");
    let before = root.files();
    let enabled = outboard(&root, &["enable", "nginx", "--engine", "web"]);
    let said = text(&enabled);
    assert!(enabled.status.success(), "{said}");
    for part in [
        "wrote ",
        "systemctl restart nginx",
        "etc/outboard/web.toml yet",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let file = "etc/systemd/system/nginx.service.d/90-outboard.conf";
    let dropin = std::fs::read_to_string(root.path(file)).expect("a drop-in");
    for line in [
        "After=outboard@web.service",
        "Wants=outboard@web.service",
        "Environment=OUTBOARD_SOCKET=/run/outboard/web.sock",
        &format!("Environment=LD_PRELOAD={}", env!("CARGO_BIN_EXE_outboard")),
    ] {
        assert!(dropin.lines().any(|one| one == line), "{line}:\n{dropin}");
    }
    assert!(
        !dropin.contains("RestrictAddressFamilies"),
        "it has no list:\n{dropin}"
    );
    let listed = text(&outboard(&root, &["list"]));
    assert_eq!(listed, "nginx  on outboard@web\n");
    // Again, with another engine: the file is replaced.
    assert!(
        outboard(&root, &["enable", "nginx.service"])
            .status
            .success()
    );
    assert_eq!(
        text(&outboard(&root, &["list"])),
        "nginx  on outboard@default\n"
    );
    let disabled = outboard(&root, &["disable", "nginx"]);
    assert!(
        text(&disabled).contains("runs on the kernel"),
        "{disabled:?}"
    );
    assert_eq!(root.files(), before, "nothing is left");
    assert!(!root.path("etc/systemd/system/nginx.service.d").exists());
    let again = outboard(&root, &["disable", "nginx"]);
    assert!(!again.status.success() && text(&again).contains("was not put on the engine"));
}

#[test]
fn a_program_that_empties_its_environment_is_told_where_it_reads_another() {
    let root = Root::new("cluster");
    let starter = root.write("usr/bin/pg_ctlcluster", "");
    std::fs::copy("/bin/sh", starter).expect("a program");
    for (unit, program) in [
        (
            "postgresql@",
            "-/usr/bin/pg_ctlcluster --skip-systemctl-redirect %i start",
        ),
        ("postgresql", "/bin/true"),
    ] {
        root.write(
            &format!("lib/systemd/system/{unit}.service"),
            &format!("[Service]\nExecStart={program}\n"),
        );
    }
    let own = "# of the cluster\nLANG = 'C'\n";
    let path = root.write("etc/postgresql/15/main/environment", own);
    let is = || std::fs::read_to_string(&path).expect("it is there");
    for engine in ["web", "default"] {
        let enabled = outboard(&root, &["enable", "postgresql@15-main", "--engine", engine]);
        let said = text(&enabled);
        assert!(
            enabled.status.success() && said.contains("main/environment"),
            "{said}"
        );
        let socket = format!("OUTBOARD_SOCKET = '/run/outboard/{engine}.sock'\n");
        let now = is();
        assert!(now.starts_with(own) && now.contains(&socket), "{now}");
        assert!(now.contains(&format!(
            "LD_PRELOAD = '{}'\n",
            env!("CARGO_BIN_EXE_outboard")
        )));
        assert_eq!(now.matches("OUTBOARD_SOCKET").count(), 1, "{now}");
    }
    assert!(
        outboard(&root, &["disable", "postgresql@15-main"])
            .status
            .success()
    );
    assert_eq!(is(), own);
    // What only stands for its clusters is not put on the engine in name.
    let refused = outboard(&root, &["enable", "postgresql"]);
    assert!(
        !refused.status.success() && text(&refused).contains("'postgresql@*'"),
        "{refused:?}"
    );
}

#[test]
fn a_service_that_cannot_run_on_it_is_refused_with_the_reason() {
    let root = Root::new("refused");
    let refused = |service: &str| {
        let output = outboard(&root, &["enable", service]);
        assert!(!output.status.success(), "{service}: {output:?}");
        text(&output)
    };
    assert!(refused("no-such").contains("there is no no-such.service"));
    service(
        &root,
        "preloads",
        "Environment=LD_PRELOAD=/usr/lib/libjemalloc.so\n",
    );
    assert!(refused("preloads").contains("sets LD_PRELOAD itself"));
    service(&root, "gone", "");
    root.write(
        "lib/systemd/system/gone.service",
        "[Service]\nExecStart=/usr/sbin/gone\n",
    );
    assert!(refused("gone").contains("/usr/sbin/gone"));
    // A file of the same name that somebody else wrote stays as it is.
    service(&root, "own", "");
    let foreign = "etc/systemd/system/own.service.d/90-outboard.conf";
    let path = root.write(foreign, "[Service]\n");
    assert!(refused("own").contains("not of outboard's making"));
    assert_eq!(
        std::fs::read_to_string(path).expect("it stays"),
        "[Service]\n"
    );
    // Where only some families of sockets are allowed, those to the engine are, too.
    service(
        &root,
        "postgresql@",
        "RestrictAddressFamilies=AF_INET AF_INET6\n",
    );
    assert!(
        outboard(&root, &["enable", "postgresql@15-main"])
            .status
            .success()
    );
    let file = "etc/systemd/system/postgresql@15-main.service.d/90-outboard.conf";
    let dropin = std::fs::read_to_string(root.path(file)).expect("a drop-in");
    assert!(
        dropin.ends_with("RestrictAddressFamilies=AF_UNIX\n"),
        "{dropin}"
    );
}

#[test]
fn the_version_is_told() {
    let said = run(Command::new(env!("CARGO_BIN_EXE_outboard")).arg("--version"));
    assert!(
        said.starts_with(&format!("outboard {}", env!("CARGO_PKG_VERSION"))),
        "{said}"
    );
}

#[test]
fn the_version_names_its_commit() {
    if lab::skip_without("the_version_names_its_commit", &["rustc"]) {
        return;
    }
    // What tells the compiler, as a build for users runs it; those for tests leave the commit out.
    let root = Root::new("commit");
    let teller = root.path("build");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    run(Command::new("rustc")
        .args(["--edition", "2024", "-o"])
        .arg(&teller)
        .arg(source));
    let told = |commit: Option<&str>| {
        let mut teller = Command::new(&teller);
        teller
            .env("CARGO_PKG_VERSION", "1.2.3")
            .env("PROFILE", "release")
            .env_remove("OUTBOARD_COMMIT")
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        teller.envs(commit.map(|commit| ("OUTBOARD_COMMIT", commit)));
        let said = run(&mut teller);
        let version = said
            .lines()
            .find_map(|line| line.strip_prefix("cargo:rustc-env=OUTBOARD_VERSION="));
        version.expect("a version").to_owned()
    };
    assert_eq!(told(Some("0123abc")), "1.2.3 (0123abc)");
    assert_eq!(told(Some("")), "1.2.3");
    let git = Command::new("git")
        .args([
            "-C",
            env!("CARGO_MANIFEST_DIR"),
            "rev-parse",
            "--short=12",
            "HEAD",
        ])
        .output();
    // Not of a tarball.
    if let Ok(git) = git
        && git.status.success()
    {
        let commit = String::from_utf8_lossy(&git.stdout).trim().to_owned();
        let version = told(None);
        assert!(
            version.starts_with(&format!("1.2.3 ({commit}")),
            "{version}"
        );
    }
}
