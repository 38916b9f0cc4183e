/* The site's few lines: theme, menu, search, copying. Search reads INDEX (index.js): [name, address, about, also] each. */
(function () {
  "use strict";
  var root = document.documentElement, box = document.querySelector(".search input"), list = document.getElementById("found");
  var base = root.getAttribute("data-base"), at = -1;

  function stored(theme) {
    try {
      if (theme) localStorage.setItem("theme", theme);
      return localStorage.getItem("theme");
    } catch (e) { return null; }
  }
  function dark() {
    var theme = root.getAttribute("data-theme");
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  var button = document.getElementById("theme");
  function label() {
    button.textContent = dark() ? "☀" : "☾";
    button.setAttribute("aria-label", dark() ? "light colours" : "dark colours");
  }
  button.onclick = function () {
    var theme = dark() ? "light" : "dark";
    root.setAttribute("data-theme", theme);
    stored(theme);
    label();
  };
  label();

  var menu = document.getElementById("menu");
  menu.onclick = function () {
    menu.setAttribute("aria-expanded", document.body.classList.toggle("open"));
  };

  /* How well an entry answers: names first, whole before beginning before part, then words of the text. */
  function worth(entry, words) {
    var name = entry[0].toLowerCase(), last = name.replace(/^.*[.:]/, ""), sum = 0;
    for (var i = 0; i < words.length; i++) {
      var w = words[i], v = 0;
      if (name === w || last === w) v = 100 - (name === w ? 0 : 3);
      else if (last.indexOf(w) === 0 || name.indexOf(w) === 0) v = 60;
      else if (name.indexOf(w) >= 0) v = 40;
      else if ((" " + entry[3]).indexOf(" " + w) >= 0) v = 30;
      else if (entry[2].toLowerCase().indexOf(w) >= 0) v = 15;
      if (!v) return 0;
      sum += v;
    }
    return sum - Math.min(name.length, 40) / 50;
  }
  function element(tag, text) {
    var e = document.createElement(tag);
    e.textContent = text;
    return e;
  }
  function mark(to) {
    var items = list.querySelectorAll("li");
    if (items[at]) items[at].removeAttribute("aria-selected");
    at = items.length ? (to + items.length) % items.length : -1;
    if (items[at]) {
      items[at].setAttribute("aria-selected", "true");
      items[at].scrollIntoView({ block: "nearest" });
    }
  }
  function search() {
    var words = box.value.toLowerCase().replace(/^(ty|tycho)[.:]/, "").split(/[\s(),]+/).filter(Boolean), hits = [];
    list.textContent = "";
    list.hidden = words.length === 0;
    box.setAttribute("aria-expanded", String(!list.hidden));
    if (!words.length) return;
    INDEX.forEach(function (entry) {
      var v = worth(entry, words);
      if (v > 0) hits.push([v, entry]);
    });
    hits.sort(function (a, b) { return b[0] - a[0]; });
    hits.slice(0, 20).forEach(function (hit) {
      var li = document.createElement("li"), a = document.createElement("a");
      li.setAttribute("role", "option");
      a.href = base + hit[1][1];
      a.appendChild(element("b", hit[1][0]));
      a.appendChild(element("span", hit[1][2]));
      a.onclick = function () { list.hidden = true; };
      li.appendChild(a);
      list.appendChild(li);
    });
    if (!hits.length) {
      var none = element("li", "Nothing is called like that.");
      none.className = "none";
      list.appendChild(none);
    }
    at = -1;
    if (hits.length) mark(0);
  }
  box.oninput = search;
  box.onfocus = function () { if (box.value) search(); };
  box.onkeydown = function (e) {
    if (e.key === "ArrowDown") { mark(at + 1); e.preventDefault(); }
    else if (e.key === "ArrowUp") { mark(at - 1); e.preventDefault(); }
    else if (e.key === "Enter") {
      var chosen = list.querySelector("[aria-selected] a");
      if (chosen) { list.hidden = true; location.href = chosen.href; }
    } else if (e.key === "Escape") { list.hidden = true; box.blur(); }
  };
  document.addEventListener("keydown", function (e) {
    var typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (e.key === "/" && !typing) { box.focus(); box.select(); e.preventDefault(); }
  });
  document.addEventListener("click", function (e) {
    if (!e.target.closest(".search")) list.hidden = true;
  });

  if (navigator.clipboard) {
    document.querySelectorAll("pre.lua:not(.call), pre.c, pre.sh").forEach(function (pre) {
      var around = document.createElement("div"), copy = element("button", "copy");
      around.className = "box";
      copy.className = "copy";
      copy.onclick = function () {
        navigator.clipboard.writeText(pre.textContent).then(function () {
          copy.textContent = "copied";
          setTimeout(function () { copy.textContent = "copy"; }, 1500);
        });
      };
      pre.parentNode.insertBefore(around, pre);
      around.appendChild(pre);
      around.appendChild(copy);
    });
  }
})();
